// SPDX-License-Identifier: Apache-2.0
// Slow memory, PSRAM say, as storage for pages and parameters. What lies there does not outlive the power: it is
// labelled for poet where it is not.
//
//     PoetMemory::begin(slow, bytes); // on an ESP32 what its heap for PSRAM gave
//     PoetBoard::useStorage(PoetMemory::open);
#ifndef POET_MEMORY_H
#define POET_MEMORY_H

#include <string.h>

#include "poet/pager.h"
#include "poet/status.h"

class PoetMemory
{
public:
    static void begin(void *memory, uint32_t bytes)
    {
        all().memory = static_cast<uint8_t *>(memory);
        all().blocks = memory != nullptr ? bytes / POET_BLOCK_BYTES : 0u;
    }

    static int open(poet_block_device * device)
    {
        *device = {nullptr, all().blocks, read, write, sync, nullptr, nullptr, nullptr, 0, nullptr, true};
        poet_pager pager;
        return all().blocks == 0u                                 ? POET_E_ABSENT
               : poet_pager_open(&pager, device) == POET_E_ABSENT ? poet_pager_format(device)
                                                                  : POET_OK;
    }

private:
    struct Memory {
        uint8_t *memory;
        uint32_t blocks;
    };

    static Memory &all()
    {
        static Memory one;
        return one;
    }

    static int read(void *, uint32_t block, void *data, uint32_t bytes)
    {
        memcpy(data, all().memory + static_cast<size_t>(block) * POET_BLOCK_BYTES, bytes);
        return POET_OK;
    }

    static int write(void *, uint32_t block, const void *data, uint32_t bytes)
    {
        memcpy(all().memory + static_cast<size_t>(block) * POET_BLOCK_BYTES, data, bytes);
        return POET_OK;
    }

    static int sync(void *)
    {
        return POET_OK;
    }
};

#endif
