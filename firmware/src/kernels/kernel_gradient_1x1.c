/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: input gradient of a 3x3 kernel with a stride of 2, phase of one tap. */
#include "kernels.h"

const uint8_t poet_gradient_1x1_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_gradient_1x1(const poet_cursor *cursor)
{
    TILES_OF_GRADIENT_ONE_K_ROW(cursor);
    GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_ONE("0"));
}
#endif
