/* SPDX-License-Identifier: Apache-2.0 */
#include "spi_dma.h"

#include <string.h>

enum {
    TASKS_START = 0x010,
    EVENTS_END = 0x118,
    INTENSET = 0x304,
    INTENCLR = 0x308,
    RXD_PTR = 0x534,
    RXD_MAXCNT = 0x538,
    TXD_PTR = 0x544,
    TXD_MAXCNT = 0x548,
};

#define END_INTERRUPT (1u << 6)
#define MOST_BYTES 1024u /* of a transfer that is moved here */

static uint64_t now(const struct spi_dma *spi)
{
    return spi->machine->counter->cycles;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool spi_dma_pending_at(const void *peripheral, uint64_t now_, uint64_t *when)
{
    const struct spi_dma *spi = peripheral;

    *when = spi->events_end != 0 ? now_ : spi->end;
    return (spi->interrupts & END_INTERRUPT) != 0 && (spi->events_end != 0 || spi->is_busy);
}

static void schedule(const struct spi_dma *spi)
{
    uint64_t when;

    if (spi_dma_pending_at(spi, now(spi), &when)) {
        interrupt_at(spi->machine, when);
    }
}

/* The bytes of a transfer move, all at its end. */
static bool move(struct spi_dma *spi, bool polled)
{
    const struct engine *engine = &spi->machine->engine;
    const uint32_t count = most(spi->send_bytes, spi->receive_bytes);
    uint8_t sent[MOST_BYTES], received[MOST_BYTES];

    if (!spi->bus.card->driven || count > MOST_BYTES) {
        return false;
    }
    memset(sent, spi->over_read, count);
    if (spi->send_bytes > 0) {
        engine->read_memory(engine->handle, spi->send, sent, spi->send_bytes);
    }
    if (polled) {
        advance_to(spi->machine->counter, spi_poll(&spi->bus, sent, received, count, spi->begin, spi->byte_cycles));
    } else {
        card_exchange(spi->bus.card, sent, received, count, spi->begin, spi->byte_cycles);
    }
    if (spi->receive_bytes > 0) {
        engine->write_memory(engine->handle, spi->receive, received, spi->receive_bytes);
    }
    spi->is_busy = 0;
    spi->events_end = 1;
    return true;
}

static bool fits(const struct machine *machine, uint32_t place, uint32_t count)
{
    return count <= MOST_BYTES && (count == 0 || in_ram(machine, place, count));
}

static bool start(struct spi_dma *spi)
{
    if (!spi->machine->spi_checked || spi->is_busy || !fits(spi->machine, spi->txd_ptr, spi->txd_maxcnt) ||
        !fits(spi->machine, spi->rxd_ptr, spi->rxd_maxcnt)) {
        return false;
    }
    spi->begin = now(spi);
    spi->end = spi->begin + most(spi->txd_maxcnt, spi->rxd_maxcnt) * spi->byte_cycles;
    spi->send = spi->txd_ptr;
    spi->send_bytes = spi->txd_maxcnt;
    spi->receive = spi->rxd_ptr;
    spi->receive_bytes = spi->rxd_maxcnt;
    spi->is_busy = 1;
    schedule(spi);
    return true;
}

/* A register that is memory, or NULL. */
static uint32_t *plain(struct spi_dma *spi, uint32_t offset)
{
    switch (offset) {
    case EVENTS_END:
        return &spi->events_end;
    case RXD_PTR:
        return &spi->rxd_ptr;
    case RXD_MAXCNT:
        return &spi->rxd_maxcnt;
    case TXD_PTR:
        return &spi->txd_ptr;
    case TXD_MAXCNT:
        return &spi->txd_maxcnt;
    default:
        return NULL;
    }
}

bool spi_dma_load(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value)
{
    struct spi_dma *spi = peripheral;
    const uint32_t *place = plain(spi, offset);
    const bool polled = (spi->interrupts & END_INTERRUPT) == 0;

    if (place == NULL || width != 4) {
        return false;
    }
    if (offset == EVENTS_END && spi->is_busy && (polled || now(spi) >= spi->end) && !move(spi, polled)) {
        return false;
    }
    *value = *place;
    return true;
}

bool spi_dma_store(void *peripheral, uint32_t offset, uint32_t width, uint32_t value)
{
    struct spi_dma *spi = peripheral;
    uint32_t *place = plain(spi, offset);

    if (width != 4) {
        return false;
    }
    if (place != NULL) {
        *place = value;
        return true;
    }
    switch (offset) {
    case TASKS_START:
        return start(spi);
    case INTENSET:
        spi->interrupts |= value;
        schedule(spi);
        return true;
    case INTENCLR:
        spi->interrupts &= ~value;
        return true;
    default:
        return false;
    }
}
