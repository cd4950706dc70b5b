/* SPDX-License-Identifier: Apache-2.0 */
/* An SPI master that moves a buffer by itself and then interrupts: the nRF52840's SPIM. peripherals/spi.py has the
 * registers that are not touched at every transfer. */
#ifndef EMULATION_SPI_DMA_H
#define EMULATION_SPI_DMA_H

#include "card.h"
#include "machine.h"

struct spi_dma {
    struct machine *machine;
    struct spi_bus bus;
    uint64_t begin, end; /* of the transfer under way */
    uint64_t byte_cycles;
    uint32_t send, send_bytes, receive, receive_bytes; /* its buffers */
    uint32_t txd_ptr, txd_maxcnt, rxd_ptr, rxd_maxcnt; /* those of the next */
    uint32_t events_end;
    uint32_t interrupts;
    uint8_t is_busy;
    uint8_t over_read;
};

load_function spi_dma_load;
store_function spi_dma_store;
bool spi_dma_pending_at(const void *spi, uint64_t now, uint64_t *when);

#endif
