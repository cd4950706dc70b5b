/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-kernels in C, for every target without its own: each step multiplies one element of each of a tile's rows with
 * one of each of its columns. */
#ifndef POET_KERNELS_MICRO_KERNEL_C_INL_H
#define POET_KERNELS_MICRO_KERNEL_C_INL_H

#include <stddef.h>

#include "micro_kernel.h"
#include "multiply_add.h"

typedef int micro_kernel; /* there is but one here */

static inline micro_kernel choose_micro_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    (void)gemm;
    cursor->rows = POET_TILE;
    return 0;
}

/* `sums` come in as they begin. */
static void multiply_4x4(const poet_cursor *cursor, float *sums)
{
    const float *columns[POET_TILE];
    for (int32_t i = 0; i < POET_TILE; i++) {
        columns[i] = cursor->b + i * cursor->b_column;
    }
    ptrdiff_t a = 0;
    ptrdiff_t b = 0;
    for (int32_t channel = 0; channel < cursor->channels; channel++) {
        for (int32_t k_row = 0; k_row < cursor->k_rows; k_row++) {
            for (int32_t tap = 0; tap < cursor->taps; tap++) {
                poet_multiply_add_4x4(sums, cursor->a, a + tap * cursor->a_tap, columns, b + tap * cursor->b_tap);
            }
            a += cursor->a_k_row;
            b += cursor->b_k_row;
        }
        a += cursor->a_channel;
        b += cursor->b_channel;
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            cursor->out[i * cursor->out_row + j] = sums[i * POET_TILE + j];
        }
    }
}

#endif
