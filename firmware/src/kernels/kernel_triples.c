/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: three taps in each k_row, k_rows by threes, A contiguous: a 3x3 kernel. */
#include "kernels.h"

const uint8_t poet_triples_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_triples(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    TRIPLES(FROM_START, TRIPLE);
}
#endif
