/* SPDX-License-Identifier: Apache-2.0 */
/* Some 4 x 4 blocks side by side, as poet_block_multiply hands them to the target's own multiply_blocks. The assembly
 * for the Cortex-M4F reads all of it by offset. */
#ifndef POET_OPS_BLOCK_WALK_H
#define POET_OPS_BLOCK_WALK_H

#include "block.h"

/* What sums begin with: added to a product it leaves the product, of either sign, so that a target may as well begin
 * with the first product. */
#define SUM_OF_NOTHING (-0.0f)

typedef struct poet_walk {
    float start[POET_BLOCK];
    const float *a[POET_BLOCK];
    const float *b;
    float *out;
    int32_t out_row;
    int32_t rows; /* of a block */
    int32_t blocks;
    int32_t left; /* columns behind them: 0, or up to 2 if the target's suits_pair says so */
    int32_t channels, lines, taps;
    int32_t a_channel, b_channel; /* from behind a channel's last line to the next channel */
    int32_t a_line, b_line;       /* from a line's begin to the next one's */
    int32_t a_tap, b_tap;
    int32_t b_column;
    int32_t started; /* whether `start` holds anything but SUM_OF_NOTHING */

    int32_t b_block_bytes, passes, entry, resume, a_step_bytes; /* the target's own */
    int32_t line, all_channels;                                 /* scratch */
} poet_walk;

/* The same for poet_dot_add: 4 x 4 blocks one below the other. */
typedef struct poet_dot_walk {
    const float *a[POET_BLOCK];
    const float *const *b;
    float *out;
    int32_t out_row;
    int32_t blocks;
    int32_t columns; /* POET_BLOCK, or fewer if the target's suits_dot_blocks says so */
    int32_t lines, taps;
    int32_t b_line, b_tap;
    int32_t b_gap_bytes; /* from behind a line's last tap to the next line */
    int32_t a_gap_bytes; /* from behind a row's last tap to the row four further down */
} poet_dot_walk;

#endif
