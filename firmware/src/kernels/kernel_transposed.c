/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: one tap in each k_row, rows of A and columns of B contiguous: a transposed matrix. */
#include "kernels.h"

const uint8_t poet_transposed_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_transposed(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    TRANSPOSED_TILES(NO_START, STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
}
#endif
