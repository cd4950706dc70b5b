/* SPDX-License-Identifier: Apache-2.0 */
/* An SPI master that the CPU feeds byte by byte: a data register that is written and read, and a register of flags. One
 * byte moves and one waits. peripherals/spi.py has the registers that are not touched for every byte. */
#ifndef EMULATION_BYTE_SPI_H
#define EMULATION_BYTE_SPI_H

#include "card.h"
#include "machine.h"

#define BYTE_SPI_MOVING 4u

struct byte_spi {
    struct machine *machine;
    struct spi_bus bus;
    uint32_t data, data_width, status, status_width; /* places of the two registers */
    uint32_t takes, received_one, idle, busy;        /* flags of the status; 0 where there is no such flag */
    uint32_t most_moving;                            /* bytes in the receive buffer and the shift register */
    uint32_t moving;                                 /* how many they are */
    uint64_t begins_at, ends_at;                     /* of the byte written last */
    uint64_t arrives_at[BYTE_SPI_MOVING];            /* of the bytes received, oldest first */
    uint64_t byte_cycles;
    uint8_t received[BYTE_SPI_MOVING];
};

load_function byte_spi_load;
store_function byte_spi_store;

#endif
