/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor of a product's rows, and what products in tiles and products added to results have besides in common. */
#ifndef POET_KERNELS_CURSOR_INL_H
#define POET_KERNELS_CURSOR_INL_H

#include "micro_kernel.h"
#include "multiply_add.h"

/* Channels of one k_row each are the k_rows of a single channel. Not inlined, because products of few rows would pay
 * for its registers. */
__attribute__((noinline)) static void cursor_begin(poet_cursor *cursor, const poet_gemm *gemm, int started)
{
    const int32_t one_k_row = gemm->k_rows == 1;
    cursor->start[0] = cursor->start[1] = cursor->start[2] = cursor->start[3] = SUM_OF_NOTHING;
    cursor->started = started;
    cursor->left = 0;
    cursor->channels = one_k_row ? 1 : gemm->channels;
    cursor->k_rows = one_k_row ? gemm->channels : gemm->k_rows;
    cursor->taps = gemm->taps;
    cursor->a_channel = one_k_row ? 0 : gemm->a_channel - gemm->k_rows * gemm->a_k_row;
    cursor->a_k_row = one_k_row ? gemm->a_channel : gemm->a_k_row;
    cursor->a_tap = gemm->a_tap;
    cursor->b_channel = one_k_row ? 0 : gemm->b_channel - gemm->k_rows * gemm->b_k_row;
    cursor->b_k_row = one_k_row ? gemm->b_channel : gemm->b_k_row;
    cursor->b_tap = gemm->b_tap;
    cursor->b_column = gemm->b_column;
}

/* Rows beyond the last one repeat it: their results are dropped. */
static inline void cursor_set_rows(poet_cursor *cursor, const poet_gemm *gemm, const float *a, const float *start,
                                   int32_t first)
{
    const int32_t last = gemm->rows - 1 - first;
    const int32_t a_row = gemm->a_row;
    const float *row = a + first * a_row;
    cursor->a[0] = row;
    cursor->a[1] = row += last >= 1 ? a_row : 0;
    cursor->a[2] = row += last >= 2 ? a_row : 0;
    cursor->a[3] = row + (last >= 3 ? a_row : 0);
    if (start) {
        for (int32_t i = 0; i < POET_TILE; i++) {
            cursor->start[i] = start[i < last ? first + i : first + last];
        }
    }
}

/* One row and four columns; `sums` come in as they begin. Of one tap in each k_row, the k_rows are its taps. */
__attribute__((noinline)) static void multiply_1x4(const poet_gemm *gemm, const float *a, const float *b, float *sums)
{
    const int single = gemm->taps == 1;
    const int32_t taps = single ? gemm->k_rows : gemm->taps;
    const int32_t k_rows = single ? 1 : gemm->k_rows;
    const int32_t a_tap = single ? gemm->a_k_row : gemm->a_tap;
    const int32_t b_tap = single ? gemm->b_k_row : gemm->b_tap;
    const int32_t b_column = gemm->b_column;
    float s[POET_TILE] = {sums[0], sums[1], sums[2], sums[3]};
    int32_t channel = gemm->channels;
    do {
        const float *a_row = a;
        const float *b_row = b;
        int32_t k_row = k_rows;
        do {
            const float *a_at = a_row;
            const float *b_at = b_row;
            int32_t tap = taps;
            if (b_column == 1) { /* lets the compiler put distances into the instructions */
                do {
                    poet_multiply_add_1x4(s, *a_at, b_at[0], b_at[1], b_at[2], b_at[3]);
                    a_at += a_tap;
                    b_at += b_tap;
                } while (--tap > 0);
            } else {
                do {
                    poet_multiply_add_1x4(s, *a_at, b_at[0], b_at[b_column], b_at[2 * b_column], b_at[3 * b_column]);
                    a_at += a_tap;
                    b_at += b_tap;
                } while (--tap > 0);
            }
            a_row += gemm->a_k_row;
            b_row += gemm->b_k_row;
        } while (--k_row > 0);
        a += gemm->a_channel;
        b += gemm->b_channel;
    } while (--channel > 0);
    for (int32_t j = 0; j < POET_TILE; j++) {
        sums[j] = s[j];
    }
}

#endif
