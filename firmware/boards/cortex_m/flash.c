/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the chip's own flash as a block device. */
#include "flash.h"

#include <stdbool.h>
#include <string.h>

#include "poet/board.h"
#include "poet/status.h"

extern const uint8_t poet_image_end[], poet_flash_end[];

static bool holds(const void *begin, uint32_t block, uint32_t bytes)
{
    const uint32_t blocks = (uint32_t)((uintptr_t)poet_flash_end - (uintptr_t)begin) / POET_BLOCK_BYTES;

    return block <= blocks && bytes <= (blocks - block) * POET_BLOCK_BYTES;
}

static int read_flash(void *context, uint32_t block, void *data, uint32_t bytes)
{
    if (!holds(context, block, bytes)) {
        return POET_E_FULL;
    }
    memcpy(data, (const uint8_t *)context + block * POET_BLOCK_BYTES, bytes);
    return POET_OK;
}

static int write_flash(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const uint8_t *const place = (const uint8_t *)context + block * POET_BLOCK_BYTES;
    uint32_t words[FLASH_PROGRAM_WORDS];

    if (!holds(context, block, bytes)) {
        return POET_E_FULL;
    }
    for (uint32_t done = 0u; done < bytes; done += (uint32_t)sizeof words) {
        const uint32_t part = bytes - done < sizeof words ? bytes - done : (uint32_t)sizeof words;
        memset(words, 0xFF, sizeof words);
        memcpy(words, (const uint8_t *)data + done, part);
        flash_program((uint32_t)(uintptr_t)place + done, words, (part + 3u) / 4u);
    }
    return memcmp(place, data, bytes) == 0 ? POET_OK : POET_E_IO;
}

static int erase_flash(void *context, uint32_t block, uint32_t blocks)
{
    for (uint32_t at = block; at < block + blocks; at += flash_unit_blocks) {
        flash_erase((uint32_t)(uintptr_t)context + at * POET_BLOCK_BYTES);
    }
    return POET_OK;
}

static int sync_flash(void *context)
{
    (void)context;
    return POET_OK;
}

int poet_board_flash(uint32_t blocks, poet_block_device *device)
{
    const uint32_t unit = flash_unit_blocks * POET_BLOCK_BYTES;
    const uint32_t end = (uint32_t)(uintptr_t)poet_flash_end / unit;
    const uint32_t begin = ((uint32_t)(uintptr_t)poet_image_end + unit - 1u) / unit;
    const uint32_t units = blocks / flash_unit_blocks + (blocks % flash_unit_blocks != 0u);

    if (begin > end || units > end - begin) {
        return POET_E_FULL;
    }
    *device = (poet_block_device){
        .context = (void *)(uintptr_t)((end - units) * unit),
        .block_count = units * flash_unit_blocks,
        .read = read_flash,
        .write = write_flash,
        .sync = sync_flash,
        .erase_blocks = flash_unit_blocks,
        .erase = erase_flash,
    };
    return POET_OK;
}
