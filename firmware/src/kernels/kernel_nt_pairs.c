/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of A times the transpose of B, two columns wide, taps of B contiguous. */
#include "kernels.h"

const uint8_t poet_nt_pairs_kernels = 1;

#if POET_FPU_ASSEMBLY
#include "nt_tiles_m4f_inl.h"

void poet_kernel_nt_pairs(const poet_nt_cursor *cursor)
{
    NT_TILES_BELOW(cursor);
    NT_TILES(TWO, NT_PAIR_STEP, ADVANCE_B_PAIR, "4", "8", "12", "16", "20", "24", "28", "32");
}
#endif
