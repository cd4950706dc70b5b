/* SPDX-License-Identifier: Apache-2.0 */
/* Products added to the sums of a tile with the compiler's own arithmetic. */
#ifndef POET_KERNELS_MULTIPLY_ADD_PLAIN_INL_H
#define POET_KERNELS_MULTIPLY_ADD_PLAIN_INL_H

#include <stddef.h>

#include "gemm.h"

static inline void poet_multiply_add_4x4(float *sums, const float *const *a, ptrdiff_t a_at, const float *const *b,
                                         ptrdiff_t b_at)
{
#if !POET_SOFT_FLOATS
#pragma GCC unroll 4
#endif
    for (int32_t i = 0; i < POET_TILE; i++) {
#if !POET_SOFT_FLOATS
#pragma GCC unroll 4
#endif
        for (int32_t j = 0; j < POET_TILE; j++) {
            *sums++ += a[i][a_at] * b[j][b_at];
        }
    }
}

static inline float poet_multiply_add_1x1(float sum, float a, float b)
{
    return sum + a * b;
}

/* One element of one row with one of each of four columns. */
static inline void poet_multiply_add_1x4(float *sums, float a, float b0, float b1, float b2, float b3)
{
    sums[0] += a * b0;
    sums[1] += a * b1;
    sums[2] += a * b2;
    sums[3] += a * b3;
}

#endif
