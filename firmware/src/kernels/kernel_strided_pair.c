/* SPDX-License-Identifier: Apache-2.0 */
/* The last columns after the tiles of kernel_strided.c. */
#include "kernels.h"

const uint8_t poet_strided_pair_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_strided_pair(const poet_cursor *cursor)
{
    LAST_TWO_COLUMNS(cursor);
    STRIDED(STORE_COLUMNS(TWO), LOAD_TWO, FIRST_TWO, TAP_PAIR);
}
#endif
