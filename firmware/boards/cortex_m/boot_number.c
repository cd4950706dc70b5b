/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/board.h"

/* RAM wakes up with noise and keeps its content over a reset: a counter there differs between resets, and a hash over
 * what nothing has written yet differs between power-ups. A chip with a random number generator has its own. */
__attribute__((weak)) uint32_t poet_board_boot_id(void)
{
    __attribute__((section(".noinit"))) static uint32_t boots;
    uint32_t bytes;
    const uint8_t *ram = poet_board_ram(&bytes);
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (uint32_t i = 0u; i < bytes; i++) {
        hash = (hash ^ ram[i]) * 16777619u;
    }
    boots++;
    return hash ^ (boots * 2654435761u);
}
