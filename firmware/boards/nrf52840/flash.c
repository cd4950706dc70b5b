/* SPDX-License-Identifier: Apache-2.0 */
/* 4.3 NVMC: pages of 4 KB, 85 ms to erase one, 41 us to program a word, 10,000 erases (4.3.8, at most). */
#include "flash.h"

#include "poet/block_device.h"
#include "registers.h"
#include "wait.h"

#define PAGE_BYTES 4096u

const uint32_t flash_unit_blocks = PAGE_BYTES / POET_BLOCK_BYTES;

static void set_mode(uint32_t mode)
{
    NVMC_CONFIG = mode;
    WAIT_UNTIL(NVMC_READY != 0u, WAIT_FLASH);
}

void flash_erase(uint32_t address)
{
    set_mode(NVMC_CONFIG_EEN);
    NVMC_ERASEPAGE = address;
    WAIT_UNTIL(NVMC_READY != 0u, WAIT_FLASH);
    set_mode(NVMC_CONFIG_REN);
}

void flash_program(uint32_t address, const uint32_t *words, uint32_t count)
{
    volatile uint32_t *const place = (volatile uint32_t *)(uintptr_t)address;

    set_mode(NVMC_CONFIG_WEN);
    for (uint32_t i = 0u; i < count; i++) {
        place[i] = words[i];
        WAIT_UNTIL(NVMC_READY != 0u, WAIT_FLASH);
    }
    set_mode(NVMC_CONFIG_REN);
}
