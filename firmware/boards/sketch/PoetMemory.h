// SPDX-License-Identifier: Apache-2.0
// Slow memory, PSRAM say, as storage for pages and parameters (poet/memory.h).
//
//     PoetMemory::begin(slow, bytes); // on an ESP32 what its heap for PSRAM gave
//     PoetMemory::keepOn(PoetCard::open); // optional: commits outlive the power there
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

    static void keepOn(int (*open)(poet_block_device *device))
    {
        all().open_lasting = open;
    }

    static int open(poet_block_device * device)
    {
        const int status = poet_memory_init(all().memory, all().bytes, device);
        if (status == POET_OK && all().open_lasting != nullptr && all().open_lasting(&all().lasting) == POET_OK) {
            device->lasting = &all().lasting;
        }
        return status;
    }

private:
    struct Memory {
        void *memory;
        uint32_t bytes;
        int (*open_lasting)(poet_block_device *device);
        poet_block_device lasting;
    };

    static Memory &all()
    {
        static Memory one;
        return one;
    }
};

#endif
