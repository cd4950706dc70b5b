// SPDX-License-Identifier: Apache-2.0
// Slow memory, PSRAM say, as storage for pages and parameters (poet/memory.h).
//
//     PoetMemory::begin(slow, bytes); // on an ESP32 what its heap for PSRAM gave
//     PoetBoard::useStorage(PoetMemory::open);
#ifndef POET_SKETCH_MEMORY_H
#define POET_SKETCH_MEMORY_H

#include "poet/memory.h"

class PoetMemory
{
public:
    static void begin(void *memory, uint32_t bytes)
    {
        all().memory = memory;
        all().bytes = bytes;
    }

    static int open(poet_block_device * device)
    {
        return poet_memory_init(all().memory, all().bytes, device);
    }

private:
    struct Memory {
        void *memory;
        uint32_t bytes;
    };

    static Memory &all()
    {
        static Memory one;
        return one;
    }
};

#endif
