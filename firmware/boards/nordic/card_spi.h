/* SPDX-License-Identifier: Apache-2.0 */
/* SPIM0, the SPI bus of the SD card. */
#ifndef NORDIC_CARD_SPI_H
#define NORDIC_CARD_SPI_H

#include "poet/sdcard.h"

extern const poet_spi card_spi;

void card_spi_init(void);

/* In the interrupt handler: whether a started transfer has ended. */
bool card_spi_acknowledge(void);

#endif
