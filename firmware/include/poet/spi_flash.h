/* SPDX-License-Identifier: Apache-2.0 */
/* Memory chips on an SPI bus for commits: NOR flash, and FRAM, which needs no erasing.
 *
 *     static poet_spi_flash flash = {.spi = &board_spi};
 *     poet_block_device device;
 *     int status = poet_nor_init(&flash, 2048, &device); // POET_E_ABSENT: no chip says its number
 *     int status = poet_fram_init(&flash, 32768, &device);
 *
 * NOR: JEDEC commands, sectors of 4 KB, pages of 256 bytes, addresses of three bytes: up to 16 MB, on a QSPI chip in
 * its single-bit mode. A KH25L8005 takes 60 ms to erase a sector, 1.4 ms to program a page, and bears 100,000 erases
 * (published, typical). FRAM: an MB85RS2MT or its like, 10^13 writes (published); up to 64 KB with addresses of two
 * bytes, above with three.
 */
#ifndef POET_SPI_FLASH_H
#define POET_SPI_FLASH_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/sdcard.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_spi_flash {
    const poet_spi *spi; /* whose `select` chooses this chip; it may have a card on the same bus */
    uint32_t first;
    uint32_t blocks;
    uint8_t address_bytes;
} poet_spi_flash;

/* The chip's last `blocks`, whole sectors, are poet's. POET_E_ABSENT where nothing answers, POET_E_FULL if it is
 * smaller. */
int poet_nor_init(poet_spi_flash *flash, uint32_t blocks, poet_block_device *device);

/* All of an FRAM of so many bytes. POET_E_ABSENT where nothing answers. */
int poet_fram_init(poet_spi_flash *flash, uint32_t bytes, poet_block_device *device);

#ifdef __cplusplus
}
#endif

#endif
