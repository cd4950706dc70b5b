/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of A times the transpose of B, every second element of B. */
#include "kernels.h"

const uint8_t poet_nt_fours_stride_2_kernels = 1;

#if POET_FPU_ASSEMBLY
#include "nt_tiles_m4f_inl.h"

void poet_kernel_nt_fours_stride_2(const poet_nt_cursor *cursor)
{
    NT_TILES_BELOW(cursor);
    NT_TILES(FOUR, NT_STEP, ADVANCE_B, "8", "16", "24", "32", "40", "48", "56", "64");
}
#endif
