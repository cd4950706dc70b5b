/* SERCOM1 as SPI master, the bus of the SD card. */
#ifndef MKR1000_CARD_SPI_H
#define MKR1000_CARD_SPI_H

#include "poet/sdcard.h"

extern const poet_spi card_spi;

void card_spi_init(void);

#endif
