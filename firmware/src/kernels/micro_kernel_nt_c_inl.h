/* SPDX-License-Identifier: Apache-2.0 */
/* A times the transpose of B in C, for every target without its own. */
#ifndef POET_KERNELS_MICRO_KERNEL_NT_C_INL_H
#define POET_KERNELS_MICRO_KERNEL_NT_C_INL_H

#include <stddef.h>

#include "kernels.h"
#include "multiply_add.h"

/* No kernel takes windows or rows. */
#define nt_add_3x3(gemm, a, b, out) 0
#define nt_add_row_quickly(gemm, columns, a, b, out) 0

static void nt_add_4x4(const poet_nt_cursor *cursor, ptrdiff_t a, float *out)
{
    float sums[POET_TILE * POET_TILE];
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            sums[i * POET_TILE + j] = out[i * cursor->out_row + j];
        }
    }
    for (int32_t k_row = 0; k_row < cursor->k_rows; k_row++) {
        for (int32_t tap = 0; tap < cursor->taps; tap++) {
            poet_multiply_add_4x4(sums, cursor->a, a++, cursor->b, k_row * cursor->b_k_row + tap * cursor->b_tap);
        }
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            out[i * cursor->out_row + j] = sums[i * POET_TILE + j];
        }
    }
}

static void nt_add_tiles(const poet_nt_cursor *cursor)
{
    const int32_t a_tile = cursor->a_gap_bytes / (int32_t)sizeof(float) + cursor->k_rows * cursor->taps;
    for (int32_t tile = 0; tile < cursor->tiles; tile++) {
        nt_add_4x4(cursor, tile * a_tile, cursor->out + tile * POET_TILE * cursor->out_row);
    }
}

#define nt_fours_of(gemm) nt_add_tiles
#define nt_pairs_of(gemm) ((poet_nt_kernel *)NULL)

#endif
