/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: those of a transposed matrix, five rows at a time. */
#include "kernels.h"

const uint8_t poet_transposed_five_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_transposed_five(const poet_cursor *cursor)
{
    TILES_SIDE_BY_SIDE(cursor);
    BY_EIGHT(NO_START, STORE_FIVE_ROWS, FROM_ONE_ROW, TRANSPOSED_FIVE(FIRST_ROW_OF_FIVE), TRANSPOSED_FIVE(ROW_OF_FIVE));
}
#endif
