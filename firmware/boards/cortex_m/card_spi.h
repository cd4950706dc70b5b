/* SPDX-License-Identifier: Apache-2.0 */
/* The SPI bus of the SD card. */
#ifndef CORTEX_M_CARD_SPI_H
#define CORTEX_M_CARD_SPI_H

#include "poet/sdcard.h"

/* Of the chip. */
extern const poet_spi card_spi;
void card_spi_init(void);
bool card_spi_finds_a_card(void);
bool card_spi_acknowledge(void); /* whether a transfer that was started has ended, in its interrupt: Nordic's */

/* Of every board: the card on that bus, and its chip select, with `context` unused. */
extern poet_sdcard card_spi_card;
void card_spi_select(void *context, bool selected);

#endif
