/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of A times the transpose of B, taps of B contiguous. */
#include "kernels.h"

const uint8_t poet_nt_fours_kernels = 1;

#if POET_FPU_ASSEMBLY
#include "nt_tiles_m4f_inl.h"

void poet_kernel_nt_fours(const poet_nt_cursor *cursor)
{
    NT_TILES_BELOW(cursor);
    NT_TILES(FOUR, NT_STEP, ADVANCE_B, "4", "8", "12", "16", "20", "24", "28", "32");
}
#endif
