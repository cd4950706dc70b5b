/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of the SAMD21 that are touched for every byte that moves on the card's bus. samd21.py holds all of
 * them, with what they mean. */
#ifndef EMULATION_SAMD21_H
#define EMULATION_SAMD21_H

#include "card.h"
#include "machine.h"

#define SAMD21_MOVING 3u

struct samd21_spi {
    uint64_t begins_at, ends_at;            /* of the byte written last */
    uint64_t arrives_at[SAMD21_MOVING + 1]; /* of the bytes received, oldest first */
    uint64_t byte_cycles;
    uint32_t moving; /* how many they are */
    uint8_t received[SAMD21_MOVING + 1];
    uint8_t ready; /* a byte has been sent from Python, which has stored no register since */
};

struct samd21_timer {
    uint64_t started_at;
    uint64_t due;           /* NEVER before a compare value is written */
    uint32_t cycles_a_tick; /* 0: not started */
    uint32_t interrupts, flags;
    uint32_t requested, is_requested;
};

struct samd21 {
    struct samd21_timer timer;
    struct samd21_spi spi;
    struct spi_bus bus;
    struct machine *machine;
    struct nvic *nvic;
};

bool samd21_next_interrupt(void *chip, uint64_t *when, uint32_t *number);
bool samd21_load(void *chip, uint32_t address, uint32_t width, uint32_t *value);
bool samd21_store(void *chip, uint32_t address, uint32_t width, uint32_t value);

#endif
