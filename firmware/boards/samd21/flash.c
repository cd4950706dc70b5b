/* SPDX-License-Identifier: Apache-2.0 */
/* 22 NVMCTRL: rows of 256 bytes in pages of 64; 6 ms to erase a row, 2.5 ms to program a page, 25,000 erases and eight
 * programs of a row between two of them (table 37-42, at most). */
#include "flash.h"

#include "poet/block_device.h"
#include "registers.h"
#include "wait.h"

#define ROW_BYTES 256u

const uint32_t flash_unit_blocks = 1u; /* two rows */

static void run(uint32_t command)
{
    NVMCTRL_CTRLA = (uint16_t)(NVMCTRL_CTRLA_CMDEX(NVMCTRL_CTRLA_CMDEX_KEY) | command);
    WAIT_UNTIL((NVMCTRL_INTFLAG & NVMCTRL_INTFLAG_READY) != 0u, WAIT_FLASH);
}

void flash_erase(uint32_t address)
{
    for (uint32_t row = address; row < address + POET_BLOCK_BYTES; row += ROW_BYTES) {
        NVMCTRL_ADDR = row / 2u; /* in half-words */
        run(NVMCTRL_CTRLA_CMD_ER);
    }
    run(NVMCTRL_CTRLA_CMD_INVALL); /* what the cache still holds */
}

/* A page, which the words fill in a buffer; what they leave of it stays erased. */
void flash_program(uint32_t address, const uint32_t *words, uint32_t count)
{
    volatile uint32_t *const page = (volatile uint32_t *)(uintptr_t)address;

    run(NVMCTRL_CTRLA_CMD_PBC);
    for (uint32_t i = 0u; i < count; i++) {
        page[i] = words[i];
    }
    run(NVMCTRL_CTRLA_CMD_WP);
    run(NVMCTRL_CTRLA_CMD_INVALL);
}
