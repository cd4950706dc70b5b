/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with nothing or with a number of their row, by those of the Cortex-M4F's kernels that there
 * are. */
#ifndef POET_KERNELS_MULTIPLY_TILES_M4F_INL_H
#define POET_KERNELS_MULTIPLY_TILES_M4F_INL_H

#include "kernels.h"
#include "micro_kernel_choice_m4f_inl.h"

static inline poet_tile_kernel *tiles_of(micro_kernel kernel)
{
    static poet_tile_kernel *const kernels[] = {
        [MICRO_GENERAL] = poet_kernel_general,
        [MICRO_SINGLES] = poet_kernel_singles,
        [MICRO_SINGLES_STRIDE_2] = poet_kernel_singles_stride_2,
        [MICRO_TRIPLES] = poet_kernel_triples,
        [MICRO_TRIPLES_STRIDE_2] = poet_kernel_triples_stride_2,
        [MICRO_STRIDED] = poet_kernel_strided,
        [MICRO_TRANSPOSED] = poet_kernel_transposed,
        [MICRO_TRANSPOSED_FIVE] = poet_kernel_transposed_five,
        [MICRO_TRANSPOSED_SPREAD] = poet_kernel_transposed_spread,
        [MICRO_GRADIENT_3X3] = poet_kernel_gradient_3x3,
        [MICRO_GRADIENT_THREE] = poet_kernel_gradient_three,
        [MICRO_GRADIENT_2X2] = poet_kernel_gradient_2x2,
        [MICRO_GRADIENT_2X1] = poet_kernel_gradient_2x1,
        [MICRO_GRADIENT_1X2] = poet_kernel_gradient_1x2,
        [MICRO_GRADIENT_1X1] = poet_kernel_gradient_1x1,
    };
    return kernels[kernel];
}

/* After the whole tiles the last columns, if they are two or one: as two, the first of them perhaps once more. Columns
 * of B are contiguous in all of these. */
static inline poet_tile_kernel *pair_of(micro_kernel kernel)
{
    return kernel == MICRO_SINGLES      ? poet_kernel_singles_pair
           : kernel == MICRO_TRANSPOSED ? poet_kernel_transposed_pair
           : kernel == MICRO_STRIDED    ? poet_kernel_strided_pair
                                        : NULL;
}

static inline int suits_pair(micro_kernel kernel)
{
    return pair_of(kernel) != NULL;
}

static inline int has_tiles(micro_kernel kernel)
{
    return tiles_of(kernel) != NULL;
}

static inline void multiply_tiles(const poet_cursor *cursor, micro_kernel kernel)
{
    tiles_of(kernel)(cursor);
    if (cursor->left > 0) {
        pair_of(kernel)(cursor);
    }
}

/* A column by a row. No sum is begun: a product that is added to SUM_OF_NOTHING stays as it is. */
static void multiply_outer(const poet_gemm *gemm, const float *a, const float *b, float *out)
{
    if (gemm->columns >= VECTOR_COLUMNS && poet_kernel_outer != NULL) {
        poet_kernel_outer(gemm, a, b, out);
        return;
    }
    for (int32_t row = 0; row < gemm->rows; row++) {
        for (int32_t column = 0; column < gemm->columns; column++) {
            out[column] = *a * b[column];
        }
        a += gemm->a_row;
        out += gemm->out_row;
    }
}

/* Says whether it could: a plain product of few rows, or of one k_row. */
static int multiply_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    const int one_k_row = gemm->k_rows == 1 && start == NULL;
    if ((gemm->rows > FEW_ROWS && !one_k_row) || gemm->channels != 1 || gemm->taps != 1 || gemm->b_column != 1 ||
        gemm->out_column != 1 || gemm->panels != 1) {
        return 0;
    }
    if (one_k_row) {
        multiply_outer(gemm, a, b, out);
        return 1;
    }
    if (gemm->columns < VECTOR_COLUMNS || poet_kernel_vector == NULL) {
        return 0;
    }
    poet_kernel_vector(gemm, a, start, b, out);
    return 1;
}

#endif
