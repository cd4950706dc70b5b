// SPDX-License-Identifier: Apache-2.0
// Any board that runs an Arduino sketch, as a board of poet: it serves poet-harness over a Stream.
#ifndef POET_BOARD_OF_ARDUINO_H
#define POET_BOARD_OF_ARDUINO_H

#include <Arduino.h>

#include "poet/block_device.h"

class PoetBoard
{
public:
    // `name` is what poet-harness is told, and is kept.
    static void begin(const char *name, Stream &port);
    // Optional, before serve: RAM for plans, instead of as much as malloc gives; a pin that is high in each measured
    // window; storage for pages and parameters (PoetMemory.h, PoetCard.h).
    static void useRam(void *ram, uint32_t bytes);
    static void useWindow(int pin);
    static void useStorage(int (*open)(poet_block_device *device));
    // Serves what has come, and returns. A whole operator or step is done before it does.
    static void serve();
};

#endif
