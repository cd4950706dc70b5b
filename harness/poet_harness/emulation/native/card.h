/* SPDX-License-Identifier: Apache-2.0 */
/* The card's end of the SPI bus, byte by byte. What a command or a whole block means is decided in sdcard.py. */
#ifndef EMULATION_CARD_H
#define EMULATION_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "counter.h"

#define CARD_BLOCK_BYTES 512u
#define CARD_DATA_BYTES (CARD_BLOCK_BYTES + 2u) /* and its CRC */
#define CARD_FRAME_BYTES 6u

struct card {
    uint64_t busy_until;
    uint64_t out_when;  /* from when on it says what follows */
    const uint8_t *out; /* what it says next, without end: NULL if nothing */
    uint32_t out_left;
    uint32_t missing; /* bytes of a block under way to it */
    uint32_t frame_bytes;
    uint32_t response_bytes;
    uint8_t frame[8];
    uint8_t response[8];
    uint8_t data[520];
    uint8_t driven; /* it is there, selected and in SPI mode: nothing else is handled here */
    uint8_t writing;
    uint8_t multiple;
    void (*command)(uint64_t now);
    void (*given)(uint64_t end);     /* all of `out` */
    void (*programme)(uint64_t end); /* all of `data` has come */
    void (*stop)(uint64_t now);      /* the token that ends a write of several blocks */
};

struct spi_bus {
    struct card *card;
    struct counter *counter;
    uint32_t polls; /* fruitless ones in a row */
};

/* Clocks bytes through a card that is `driven`; the first begins at `begin`. */
void card_exchange(struct card *card, const uint8_t *sent, uint8_t *received, uint32_t count, uint64_t begin,
                   uint64_t byte_cycles);

/* The same while the CPU does nothing but wait for them. Returns when the last bit has moved. */
uint64_t spi_poll(struct spi_bus *bus, const uint8_t *sent, uint8_t *received, uint32_t count, uint64_t begin,
                  uint64_t byte_cycles);

#endif
