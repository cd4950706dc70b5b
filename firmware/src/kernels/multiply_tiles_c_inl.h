/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with nothing or with a number of their row, in C. */
#ifndef POET_KERNELS_MULTIPLY_TILES_C_INL_H
#define POET_KERNELS_MULTIPLY_TILES_C_INL_H

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

/* There is one kernel, of whole tiles. */
#define suits_pair(kernel) 0
#define has_tiles(kernel) 1
#define multiply_vector(gemm, a, start, b, out) 0

#endif
