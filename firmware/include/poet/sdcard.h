/* An SD card in SPI mode as a block device.
 *
 *     static poet_sdcard card;
 *     poet_block_device device;
 *     int status = poet_sdcard_init(&card, &board_spi, &device);
 *
 * Follows the SD Association's "Physical Layer Simplified Specification" 6.00, chapter 7 "SPI Mode". SDSC (version 1
 * and 2), SDHC and SDXC; CRC checking is switched on; transfers that fail their CRC are repeated, twice at most.
 */
#ifndef POET_SDCARD_H
#define POET_SDCARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/status.h"

/* The bus, mode 0, most significant bit first. Not both of `send` and `receive` are NULL: a missing `send` stands for
 * bytes of 0xFF, a missing `receive` drops what comes. */
typedef struct poet_spi {
    void *context;
    uint32_t fastest_hz;
    void (*set_speed)(void *context, uint32_t hz); /* the fastest rate not above `hz` */
    void (*select)(void *context, bool selected);
    void (*transfer)(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes);
} poet_spi;

typedef struct poet_sdcard {
    const poet_spi *spi;
    uint32_t block_count;
    bool byte_addressed;            /* SDSC: commands take byte addresses */
    uint8_t edge[POET_BLOCK_BYTES]; /* the last, partial block of a transfer */
} poet_sdcard;

/* POET_E_ABSENT: no card answers. POET_E_UNSUPPORTED: not an SD card of the kinds above. POET_E_IO: it failed. */
int poet_sdcard_init(poet_sdcard *card, const poet_spi *spi, poet_block_device *device);

#endif
