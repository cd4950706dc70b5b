/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with nothing or with a number of their row, in C. */
#ifndef POET_OPS_MULTIPLY_TILES_C_INL_H
#define POET_OPS_MULTIPLY_TILES_C_INL_H

#include "micro_kernel_c_inl.h"

static void multiply_tiles(const poet_cursor *whole, micro_kernel kernel)
{
    (void)kernel;
    poet_cursor cursor = *whole;
    for (; cursor.tiles > 0; cursor.tiles--) {
        float sums[POET_TILE * POET_TILE];
        for (int32_t i = 0; i < POET_TILE * POET_TILE; i++) {
            sums[i] = cursor.start[i / POET_TILE];
        }
        multiply_4x4(&cursor, sums);
        cursor.b += POET_TILE * cursor.b_column;
        cursor.out += POET_TILE;
    }
}

static inline int stores_in_place(micro_kernel kernel, const poet_gemm *gemm)
{
    (void)kernel;
    return gemm->rows >= POET_TILE && gemm->columns >= POET_TILE && gemm->out_column == 1;
}

static inline int suits_pair(micro_kernel kernel)
{
    (void)kernel;
    return 0;
}

static inline int has_tiles(micro_kernel kernel)
{
    (void)kernel;
    return 1;
}

static inline int multiply_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    (void)gemm;
    (void)a;
    (void)start;
    (void)b;
    (void)out;
    return 0;
}

#endif
