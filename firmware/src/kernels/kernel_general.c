/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of any product. */
#include "kernels.h"

const uint8_t poet_general_kernels = 1;

#if POET_TILES_M4F
#include "general_tiles_m4f_inl.h"

void poet_kernel_general(const poet_cursor *cursor)
{
    multiply_tiles_general(cursor, 0);
}
#endif
