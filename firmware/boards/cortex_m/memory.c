/* SPDX-License-Identifier: Apache-2.0 */
/* The RAM that the linker left to the model. */
#include "poet/board.h"

extern uint8_t poet_ram_start[], poet_ram_end[];

uint8_t *poet_board_ram(uint32_t *bytes)
{
    *bytes = (uint32_t)((uintptr_t)poet_ram_end - (uintptr_t)poet_ram_start);
    return poet_ram_start;
}
