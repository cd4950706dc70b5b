/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM1 as SPI master, the bus of the SD card. */
#ifndef SAMD21_CARD_SPI_H
#define SAMD21_CARD_SPI_H

#include "poet/sdcard.h"

extern const poet_spi card_spi;

void card_spi_init(void);

/* Whether a card answers. Asked by hand, since only a pin that is no peripheral's can have its pull-up: without one, an
 * empty slot may say anything. */
bool card_spi_finds_a_card(void);

#endif
