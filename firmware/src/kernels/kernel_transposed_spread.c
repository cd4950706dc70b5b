/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: those of a transposed matrix, with a gap after every result. */
#include "kernels.h"

const uint8_t poet_transposed_spread_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_transposed_spread(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    TRANSPOSED_TILES(NO_START, STORE_SPREAD, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
}
#endif
