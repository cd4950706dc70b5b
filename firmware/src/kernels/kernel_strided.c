/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: one tap in each k_row, A at any distances. */
#include "kernels.h"

const uint8_t poet_strided_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_strided(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    STRIDED(STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
}
#endif
