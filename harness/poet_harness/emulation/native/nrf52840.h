/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of the nRF52840 that are touched at every movement of the card's bus. nrf52840.py holds all of them,
 * with what they mean. */
#ifndef EMULATION_NRF52840_H
#define EMULATION_NRF52840_H

#include "card.h"
#include "machine.h"

struct nrf52840_timer {
    uint64_t started_at;
    uint64_t due1, due2;    /* when a compare event comes; NEVER before a compare value is written */
    uint32_t cycles_a_tick; /* 0: not started */
    uint32_t interrupts;
    uint32_t cc0, cc1, cc2;
    uint32_t compare1, compare2;
};

struct nrf52840_spim {
    uint64_t begin, end; /* of the transfer under way */
    uint64_t byte_cycles;
    uint32_t send, send_bytes, receive, receive_bytes; /* its buffers */
    uint32_t events_end;
    uint32_t interrupts;
    uint32_t txd_ptr, txd_maxcnt, rxd_ptr, rxd_maxcnt;
    uint8_t busy;
    uint8_t ready; /* it has been started from Python, which has stored no register since */
    uint8_t over_read;
};

struct nrf52840 {
    struct nrf52840_timer timer;
    struct nrf52840_spim spim;
    struct spi_bus bus;
    struct machine *machine;
    struct nvic *nvic;
};

bool nrf52840_next_interrupt(void *chip, uint64_t *when, uint32_t *number);
bool nrf52840_load(void *chip, uint32_t address, uint32_t width, uint32_t *value);
bool nrf52840_store(void *chip, uint32_t address, uint32_t width, uint32_t value);

#endif
