/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with the results so far, for the Cortex-M4F. */
#ifndef POET_KERNELS_ADD_TILES_M4F_INL_H
#define POET_KERNELS_ADD_TILES_M4F_INL_H

#include "general_tiles_m4f_inl.h"

/* The same with sums that begin with the results; not inlined, because multiply_tiles would pay for its registers. */
__attribute__((noinline)) static void add_tiles(const poet_cursor *cursor, micro_kernel kernel)
{
    enum { one_k_row = 0 };
    const float *a0, *a1, *a2, *a3, *b = cursor->b;
    float *out = cursor->out;
    int32_t tiles = cursor->tiles, n, t;
    if (kernel == MICRO_SINGLES) {
        SINGLES(ADD_RESULTS, STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
    } else if (kernel == MICRO_TRANSPOSED) {
        TRANSPOSED_TILES(ADD_RESULTS, STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
    } else if (kernel == MICRO_TRIPLES) {
        TRIPLES(FROM_RESULTS, TRIPLE);
    } else if (kernel == MICRO_TRIPLES_STRIDE_2) {
        TRIPLES(FROM_RESULTS, TRIPLE_STRIDE_2);
    } else if (kernel == MICRO_GRADIENT_3X3) {
        const int32_t a_channel = cursor->a_channel + cursor->k_rows * cursor->a_k_row;
        const int32_t b_channel = cursor->b_channel + cursor->b_k_row;
        GRADIENT(START_RESULTS, STORE, REVERSED_3X3(REVERSED_THREE));
    } else {
        multiply_tiles_general(cursor, 1);
    }
}

#endif
