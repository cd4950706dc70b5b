/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: those of a 3x3 kernel, every second element of B. */
#include "kernels.h"

const uint8_t poet_triples_stride_2_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_triples_stride_2(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    TRIPLES(FROM_START, TRIPLE_STRIDE_2);
}
#endif
