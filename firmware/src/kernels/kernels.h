/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-kernels of products, one a file: a program links those that it names (POET_KERNELS). Where one is missing, its
 * address is NULL, and loops in C compute the same bits. */
#ifndef POET_KERNELS_KERNELS_H
#define POET_KERNELS_KERNELS_H

#include "registers_m4f.h"

#include <stddef.h>

#include "micro_kernel.h"
#include "poet/operator.h"

#define POET_TILES_M4F (POET_FPU_ASSEMBLY && POET_EVERY_REGISTER) /* most of them need every register */

/* Tiles side by side, from where the cursor stands; and the last columns after them. */
typedef void poet_tile_kernel(const poet_cursor *cursor);

POET_OPTIONAL poet_tile_kernel poet_kernel_singles, poet_kernel_singles_stride_2, poet_kernel_triples,
    poet_kernel_triples_stride_2, poet_kernel_strided, poet_kernel_transposed, poet_kernel_transposed_five,
    poet_kernel_transposed_spread, poet_kernel_singles_pair, poet_kernel_transposed_pair, poet_kernel_strided_pair,
    poet_kernel_gradient_3x3, poet_kernel_gradient_three, poet_kernel_gradient_2x2, poet_kernel_gradient_2x1,
    poet_kernel_gradient_1x2, poet_kernel_gradient_1x1, poet_kernel_general;

/* Plain products of one or two rows, and of a single k_row, of VECTOR_COLUMNS columns or more. */
POET_OPTIONAL void poet_kernel_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b,
                                      float *out);
POET_OPTIONAL void poet_kernel_outer(const poet_gemm *gemm, const float *a, const float *b, float *out);
#define VECTOR_COLUMNS 16

/* Tiles one below the other, of at least one. */
typedef void poet_nt_kernel(const poet_nt_cursor *cursor);

POET_OPTIONAL poet_nt_kernel poet_kernel_nt_fours, poet_kernel_nt_fours_stride_2, poet_kernel_nt_pairs;

/* Adds the products of one row with as many columns as it can, whose taps are contiguous, and returns how many: all but
 * the last one, if they are odd. It takes eight taps at once: of fewer, loops are as quick. */
#define ROW_TAPS 8
POET_OPTIONAL int32_t poet_kernel_nt_row(const poet_gemm_nt *gemm, int32_t columns, const float *a,
                                         const float *const *b, float *out);

/* Adds the products with columns that are whole windows of 3x3. */
POET_OPTIONAL void poet_kernel_nt_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out);

#endif
