/* SPDX-License-Identifier: Apache-2.0 */
/* An SD card in SPI mode as a block device.
 *
 *     static poet_sdcard card;
 *     poet_block_device device;
 *     int status = poet_sdcard_init(&card, &board_spi, &device);
 *
 * Follows the SD Association's "Physical Layer Simplified Specification" 6.00, chapter 7 "SPI Mode". SDSC (version 1
 * and 2), SDHC and SDXC. CRC checking is switched on where the card knows it. A block that fails its CRC is moved
 * again, twice at each of three rates of the bus.
 */
#ifndef POET_SDCARD_H
#define POET_SDCARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bus, mode 0, most significant bit first. Not both of `send` and `receive` are NULL: a missing `send` stands for
 * bytes of 0xFF, a missing `receive` drops what comes.
 *
 * A bus that moves bytes without the CPU also sets `start` and `sleep`: `start` returns at once, and the board's
 * interrupt handler calls poet_sdcard_interrupt when the transfer is over. Both are NULL on other boards. */
typedef struct poet_spi {
    void *context;
    uint32_t fastest_hz;
    void (*set_speed)(void *context, uint32_t hz); /* the fastest rate not above `hz` */
    void (*select)(void *context, bool selected);
    void (*transfer)(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes);
    void (*start)(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes);
    void (*sleep)(void *context, const volatile uint8_t *busy); /* until an interrupt, unless *busy is 0 by then */
    uint32_t (*ticks)(void); /* a free-running counter that may wrap: no card is waited for without end */
    uint32_t ticks_hz;
} poet_spi;

/* Bytes moved at once while waiting for the card; whatever data they turn out to hold is used. */
#define POET_SDCARD_LOOK_BYTES 32u

typedef struct poet_sdcard {
    const poet_spi *spi;
    uint32_t block_count;
    uint32_t hz; /* of the bus */
    bool version_2;
    bool byte_addressed; /* SDSC: commands take byte addresses */
    bool checks_crc;
    uint32_t unknown;     /* bit i: command i, which the card called illegal and is no more asked for */
    bool write_protected; /* by its own register; the slider on its side is the slot's affair */

    /* The response that is being received: how far it is out of step with the bytes, and the last of them. */
    uint8_t shift;
    uint8_t held;

    /* The transfer under way. */
    volatile uint8_t stage; /* 0: none */
    int status;             /* of the last one */
    uint32_t block;         /* where it starts on the card */
    uint8_t *data;
    uint32_t bytes;
    uint32_t done;        /* bytes of `data` that have arrived whole */
    uint32_t since_ticks; /* when the card was last asked */
    uint8_t attempts;
    bool writing;
    bool check_pending; /* the block before `done` has arrived, its CRC is about to */
    uint16_t crc;
    uint8_t send[POET_SDCARD_LOOK_BYTES];
    uint8_t look[POET_SDCARD_LOOK_BYTES];
    uint8_t edge[POET_BLOCK_BYTES]; /* the last, partial block */
} poet_sdcard;

/* POET_E_ABSENT: no card answers. POET_E_UNSUPPORTED: not an SD card of the kinds above. POET_E_IO: it failed.
 * A card that is write-protected starts; writing to it gives POET_E_PROTECTED. */
int poet_sdcard_init(poet_sdcard *card, const poet_spi *spi, poet_block_device *device);

/* What the interrupt handler calls at the end of every transfer that the driver has started. */
void poet_sdcard_interrupt(poet_sdcard *card);

#ifdef __cplusplus
}
#endif

#endif
