/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with the results so far, in C. */
#ifndef POET_KERNELS_ADD_TILES_C_INL_H
#define POET_KERNELS_ADD_TILES_C_INL_H

#include "micro_kernel_c_inl.h"

#define ANY_ADDING_KERNEL 0

static inline micro_kernel choose_adding_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    return choose_micro_kernel(cursor, gemm);
}

static void add_tiles(const poet_cursor *whole, micro_kernel kernel)
{
    (void)kernel;
    poet_cursor cursor = *whole;
    for (; cursor.tiles > 0; cursor.tiles--) {
        float sums[POET_TILE * POET_TILE];
        for (int32_t i = 0; i < POET_TILE * POET_TILE; i++) {
            sums[i] = cursor.out[i / POET_TILE * cursor.out_row + i % POET_TILE];
        }
        multiply_4x4(&cursor, sums);
        cursor.b += POET_TILE * cursor.b_column;
        cursor.out += POET_TILE;
    }
}

#endif
