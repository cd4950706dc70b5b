/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/block_window.h"

#include <stdbool.h>
#include <stddef.h>

static bool holds(const poet_block_window *window, uint32_t block, uint32_t bytes)
{
    const uint32_t blocks = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u);
    return blocks <= window->count && block <= window->count - blocks;
}

static int read_part(void *context, uint32_t block, void *data, uint32_t bytes)
{
    const poet_block_window *window = context;
    const poet_block_device *device = window->device;
    return holds(window, block, bytes) ? device->read(device->context, window->first + block, data, bytes)
                                       : POET_E_FULL;
}

static int write_part(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const poet_block_window *window = context;
    const poet_block_device *device = window->device;
    return holds(window, block, bytes) ? device->write(device->context, window->first + block, data, bytes)
                                       : POET_E_FULL;
}

static int sync_part(void *context)
{
    const poet_block_device *device = ((const poet_block_window *)context)->device;
    return device->sync(device->context);
}

static int start_read_part(void *context, uint32_t block, void *data, uint32_t bytes)
{
    const poet_block_window *window = context;
    const poet_block_device *device = window->device;
    return holds(window, block, bytes) ? device->start_read(device->context, window->first + block, data, bytes)
                                       : POET_E_FULL;
}

static int start_write_part(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const poet_block_window *window = context;
    const poet_block_device *device = window->device;
    return holds(window, block, bytes) ? device->start_write(device->context, window->first + block, data, bytes)
                                       : POET_E_FULL;
}

static int wait_for_part(void *context)
{
    const poet_block_device *device = ((const poet_block_window *)context)->device;
    return device->wait(device->context);
}

static int erase_part(void *context, uint32_t block, uint32_t blocks)
{
    const poet_block_window *window = context;
    const poet_block_device *device = window->device;
    return blocks <= window->count && block <= window->count - blocks
               ? device->erase(device->context, window->first + block, blocks)
               : POET_E_FULL;
}

int poet_block_window_open(poet_block_window *window, const poet_block_device *device, uint32_t first, uint32_t count,
                           poet_block_device *part)
{
    const uint32_t unit = device->erase_blocks > 0u ? device->erase_blocks : 1u;
    if (count > device->block_count || first > device->block_count - count || first % unit != 0u ||
        count % unit != 0u) {
        return POET_E_ARGUMENT;
    }
    *window = (poet_block_window){device, first, count};
    *part = (poet_block_device){
        .context = window, .block_count = count, .read = read_part, .write = write_part, .sync = sync_part};
    if (device->erase_blocks > 0u) {
        part->erase_blocks = device->erase_blocks;
        part->erase = erase_part;
    }
    if (device->start_read != NULL) {
        part->start_read = start_read_part;
        part->start_write = start_write_part;
        part->wait = wait_for_part;
    }
    return POET_OK;
}
