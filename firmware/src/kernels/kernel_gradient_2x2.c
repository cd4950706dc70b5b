/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: input gradient of a 3x3 kernel with a stride of 2, phase of four taps. */
#include "kernels.h"

const uint8_t poet_gradient_2x2_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

void poet_kernel_gradient_2x2(const poet_cursor *cursor)
{
    TILES_OF_GRADIENT_K_ROWS(cursor);
    GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_TWO("0", "8") NEXT_K_ROW REVERSED_TWO("24", "32"));
}
#endif
