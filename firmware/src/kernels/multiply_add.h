/* SPDX-License-Identifier: Apache-2.0 */
/* Products added to the sums of a tile, with the arithmetic that suits the target. */
#ifndef POET_KERNELS_MULTIPLY_ADD_H
#define POET_KERNELS_MULTIPLY_ADD_H

#include <stddef.h>

#include "gemm.h"

#if defined(__ARM_ARCH_6M__) || defined(POET_SOFT_MULTIPLY_ADD)
#define POET_MULTIPLY_ADD_IS_SOFT

void poet_multiply_add_4x4(float *sums, const float *const *a, ptrdiff_t a_at, const float *const *b, ptrdiff_t b_at);
float poet_multiply_add_1x1(float sum, float a, float b);

/* One element of one row with one of each of four columns. */
void poet_multiply_add_1x4(float *sums, float a, float b0, float b1, float b2, float b3);
#else
#include "multiply_add_plain_inl.h"
#endif

#endif
