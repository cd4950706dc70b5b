/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/spi_flash.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    PROGRAM = 0x02,
    READ = 0x03,
    WRITE_DISABLE = 0x04,
    READ_STATUS = 0x05,
    WRITE_ENABLE = 0x06,
    ERASE_SECTOR = 0x20,
    READ_ID = 0x9F
};

#define STATUS_BUSY 0x01u
#define STATUS_WRITE_ENABLED 0x02u
#define STATUS_PROTECTED 0x3Cu
#define STATUS_FRAM_PROTECTED 0x0Cu
#define SECTOR_BLOCKS 8u
#define PAGE_BYTES 256u
#define LIMIT_MS 3000u /* the slowest sector takes 400 */

/* A command, its address, and the data behind them, either way; all the chip's select. */
static void run(const poet_spi_flash *flash, const uint8_t *head, uint32_t bytes, const uint8_t *send, uint8_t *receive,
                uint32_t count)
{
    const poet_spi *spi = flash->spi;

    spi->select(spi->context, true);
    spi->transfer(spi->context, head, NULL, bytes);
    if (count > 0u) {
        spi->transfer(spi->context, send, receive, count);
    }
    spi->select(spi->context, false);
}

static void run_at(const poet_spi_flash *flash, uint8_t command, uint32_t address, const uint8_t *send,
                   uint8_t *receive, uint32_t count)
{
    const uint8_t head[4] = {command, (uint8_t)(address >> 16), (uint8_t)(address >> 8), (uint8_t)address};
    const uint8_t short_head[3] = {command, head[2], head[3]};
    const bool two = flash->address_bytes == 2u;

    run(flash, two ? short_head : head, flash->address_bytes + 1u, send, receive, count);
}

static uint8_t ask(const poet_spi_flash *flash, uint8_t command)
{
    uint8_t answer;

    run(flash, &command, 1u, NULL, &answer, 1u);
    return answer;
}

static int wait_until_ready(const poet_spi_flash *flash)
{
    const uint32_t start = flash->spi->ticks();

    while ((ask(flash, READ_STATUS) & STATUS_BUSY) != 0u) {
        if (flash->spi->ticks() - start > LIMIT_MS * (flash->spi->ticks_hz / 1000u)) {
            return POET_E_IO;
        }
    }
    return POET_OK;
}

static int enable(const poet_spi_flash *flash, bool enabled)
{
    const uint8_t command = enabled ? WRITE_ENABLE : WRITE_DISABLE;

    run(flash, &command, 1u, NULL, NULL, 0u);
    return ((ask(flash, READ_STATUS) & STATUS_WRITE_ENABLED) != 0u) == enabled ? POET_OK : POET_E_IO;
}

/* Chips answer to this, whatever number they have or have not. */
static int find(poet_spi_flash *flash, uint8_t protection)
{
    flash->spi->set_speed(flash->spi->context, flash->spi->fastest_hz);
    if (wait_until_ready(flash) != POET_OK || enable(flash, true) != POET_OK || enable(flash, false) != POET_OK) {
        return POET_E_ABSENT;
    }
    return (ask(flash, READ_STATUS) & protection) == 0u ? POET_OK : POET_E_PROTECTED;
}

static bool holds(const poet_spi_flash *flash, uint32_t block, uint32_t bytes)
{
    const uint32_t blocks = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u);
    return blocks <= flash->blocks && block <= flash->blocks - blocks;
}

static int read_blocks(void *context, uint32_t block, void *data, uint32_t bytes)
{
    const poet_spi_flash *flash = context;

    if (!holds(flash, block, bytes)) {
        return POET_E_FULL;
    }
    run_at(flash, READ, (flash->first + block) * POET_BLOCK_BYTES, NULL, data, bytes);
    return POET_OK;
}

static int program(const poet_spi_flash *flash, uint32_t address, const uint8_t *data, uint32_t bytes)
{
    const int status = enable(flash, true);

    if (status != POET_OK) {
        return status;
    }
    run_at(flash, PROGRAM, address, data, NULL, bytes);
    return wait_until_ready(flash);
}

static int write_pages(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const poet_spi_flash *flash = context;
    int status = holds(flash, block, bytes) ? POET_OK : POET_E_FULL;

    for (uint32_t done = 0u; status == POET_OK && done < bytes; done += PAGE_BYTES) {
        const uint32_t part = bytes - done < PAGE_BYTES ? bytes - done : PAGE_BYTES;
        status = program(flash, (flash->first + block) * POET_BLOCK_BYTES + done, (const uint8_t *)data + done, part);
    }
    return status;
}

static int erase_sectors(void *context, uint32_t block, uint32_t blocks)
{
    const poet_spi_flash *flash = context;
    int status = holds(flash, block, blocks * POET_BLOCK_BYTES) ? POET_OK : POET_E_FULL;

    for (uint32_t at = block; status == POET_OK && at < block + blocks; at += SECTOR_BLOCKS) {
        status = enable(flash, true);
        if (status == POET_OK) {
            run_at(flash, ERASE_SECTOR, (flash->first + at) * POET_BLOCK_BYTES, NULL, NULL, 0u);
            status = wait_until_ready(flash);
        }
    }
    return status;
}

static int write_fram(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    static const uint8_t zeros[POET_BLOCK_BYTES] = {0};
    const poet_spi_flash *flash = context;
    const uint32_t rest = (POET_BLOCK_BYTES - bytes % POET_BLOCK_BYTES) % POET_BLOCK_BYTES;
    int status = holds(flash, block, bytes) ? POET_OK : POET_E_FULL;

    if (status == POET_OK && bytes > 0u) {
        status = program(flash, block * POET_BLOCK_BYTES, data, bytes);
    }
    if (status == POET_OK && rest > 0u) {
        status = program(flash, block * POET_BLOCK_BYTES + bytes, zeros, rest);
    }
    return status;
}

/* Every write has waited until the chip was ready again. */
static int sync_chip(void *context)
{
    (void)context;
    return POET_OK;
}

int poet_nor_init(poet_spi_flash *flash, uint32_t blocks, poet_block_device *device)
{
    const uint8_t command = READ_ID;
    uint8_t id[3];
    const int status = find(flash, STATUS_PROTECTED);

    run(flash, &command, 1u, NULL, id, sizeof id);
    if (status != POET_OK || id[2] < 16u || id[2] > 24u) {
        return status != POET_OK ? status : POET_E_ABSENT;
    }
    const uint32_t all = (1u << id[2]) / POET_BLOCK_BYTES;
    if (blocks > all || blocks % SECTOR_BLOCKS != 0u) {
        return POET_E_FULL;
    }
    flash->first = all - blocks;
    flash->blocks = blocks;
    flash->address_bytes = 3u;
    *device = (poet_block_device){.context = flash,
                                  .block_count = blocks,
                                  .read = read_blocks,
                                  .write = write_pages,
                                  .sync = sync_chip,
                                  .erase_blocks = SECTOR_BLOCKS,
                                  .erase = erase_sectors};
    return POET_OK;
}

int poet_fram_init(poet_spi_flash *flash, uint32_t bytes, poet_block_device *device)
{
    flash->first = 0u;
    flash->blocks = bytes / POET_BLOCK_BYTES;
    flash->address_bytes = bytes > 65536u ? 3u : 2u;
    *device = (poet_block_device){
        .context = flash, .block_count = flash->blocks, .read = read_blocks, .write = write_fram, .sync = sync_chip};
    return find(flash, STATUS_FRAM_PROTECTED);
}
