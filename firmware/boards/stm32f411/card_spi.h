/* SPDX-License-Identifier: Apache-2.0 */
/* SPI1, the SPI bus of the SD card. */
#ifndef STM32F411_CARD_SPI_H
#define STM32F411_CARD_SPI_H

#include "poet/sdcard.h"

extern const poet_spi card_spi;

void card_spi_init(void);

#endif
