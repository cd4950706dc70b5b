/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/memory.h"

#include <string.h>

#include "poet/pager.h"

static int read(void *context, uint32_t block, void *data, uint32_t bytes)
{
    memcpy(data, poet_memory_place(context, block), bytes);
    return POET_OK;
}

static int write(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    memcpy(poet_memory_place(context, block), data, bytes);
    return POET_OK;
}

static int sync(void *context)
{
    (void)context;
    return POET_OK;
}

int poet_memory_init(void *memory, uint32_t bytes, poet_block_device *device)
{
    *device = (poet_block_device){
        .context = memory,
        .block_count = memory != NULL ? bytes / POET_BLOCK_BYTES : 0u,
        .read = read,
        .write = write,
        .sync = sync,
        .forgets = true,
    };
    poet_pager pager;
    if (device->block_count == 0u) {
        return POET_E_ABSENT;
    }
    return poet_pager_open(&pager, device) == POET_E_ABSENT ? poet_pager_format(device) : POET_OK;
}
