/* SPDX-License-Identifier: Apache-2.0 */
/* Where a micro-kernel stands: tiles side by side, as poet_gemm_multiply hands them to the target's own multiply_tiles.
 * The assembly for the Cortex-M4F reads all of it by offset. */
#ifndef POET_KERNELS_MICRO_KERNEL_H
#define POET_KERNELS_MICRO_KERNEL_H

#include "gemm.h"

/* What sums begin with: added to a product it leaves the product, of either sign, so that a target may as well begin
 * with the first product. */
#define SUM_OF_NOTHING (-0.0f)

/* So few that a tile would mostly compute what is dropped. */
#define FEW_ROWS 2
#define FEW_COLUMNS 2

/* Convolutions with kernels of 3 x 3 have micro-kernels of their own on some targets. */
#define KERNEL_WIDTH 3
#define KERNEL_WEIGHTS 9

typedef struct poet_cursor {
    float start[POET_TILE];
    const float *a[POET_TILE];
    const float *b;
    float *out;
    int32_t out_row;
    int32_t rows; /* of a tile */
    int32_t tiles;
    int32_t left; /* columns after them: 0, or up to 2 if the target's suits_pair says so */
    int32_t channels, k_rows, taps;
    int32_t a_channel, b_channel; /* from the end of a channel's last k_row to the next channel */
    int32_t a_k_row, b_k_row;     /* from a k_row's begin to the next one's */
    int32_t a_tap, b_tap;
    int32_t b_column;
    int32_t started; /* whether `start` holds anything but SUM_OF_NOTHING */

    int32_t b_tile_bytes, passes, entry, resume, a_step_bytes; /* the target's own */
    int32_t k_row, all_channels;                               /* scratch */
} poet_cursor;

/* The same for poet_gemm_nt_add: tiles one below the other. */
typedef struct poet_nt_cursor {
    const float *a[POET_TILE];
    const float *const *b;
    float *out;
    int32_t out_row;
    int32_t tiles;
    int32_t k_rows, taps;
    int32_t b_k_row, b_tap;
    int32_t b_gap_bytes; /* from the end of a k_row's last tap to the next k_row */
    int32_t a_gap_bytes; /* from the end of a row's last tap to the row four further down */
} poet_nt_cursor;

#endif
