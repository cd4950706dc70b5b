/* SPDX-License-Identifier: Apache-2.0 */
/* What a chip does to its own flash for poet_board_flash. The core stands still meanwhile. */
#ifndef CORTEX_M_FLASH_H
#define CORTEX_M_FLASH_H

#include <stdint.h>

#define FLASH_PROGRAM_WORDS 16u /* at most, and from a multiple of so many on */

extern const uint32_t flash_unit_blocks;

/* Of a unit. */
void flash_erase(uint32_t address);

void flash_program(uint32_t address, const uint32_t *words, uint32_t count);

#endif
