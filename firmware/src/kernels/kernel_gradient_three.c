/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: input gradient of a 3x3 kernel, three rows at a time. */
#include "kernels.h"

const uint8_t poet_gradient_three_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_gradient_three(const poet_cursor *cursor)
{
    TILES_OF_GRADIENT_K_ROWS(cursor);
    GRADIENT(START_SUMS, STORE_THREE_ROWS, REVERSED_3X3(REVERSED_THREE_ROWS));
}
#endif
