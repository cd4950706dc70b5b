/* SPDX-License-Identifier: Apache-2.0 */
#include "samd21.h"

#include <string.h>

enum {
    SERCOM1_SPI_INTFLAG = 0x42000C18,
    SERCOM1_SPI_DATA = 0x42000C28,
    TC4_COUNT32_READREQ = 0x42003002,
    TC4_COUNT32_COUNT = 0x42003010,
};

#define READ_REQUEST_COUNT 0x8010u
#define TC4_IRQ 19u
#define MC0 (1u << 4)
#define DRE (1u << 0)
#define TXC (1u << 1)
#define RXC (1u << 2)

static uint64_t now(const struct samd21 *chip)
{
    return chip->machine->counter->cycles;
}

static uint32_t intflag(struct samd21 *chip)
{
    const struct samd21_spi *spi = &chip->spi;
    const bool arrived = spi->moving > 0 && spi->arrives_at[0] <= now(chip);
    uint64_t coming = UINT64_MAX;

    if (!arrived) {
        if (spi->begins_at > now(chip)) {
            coming = spi->begins_at;
        }
        for (uint32_t i = 0; i < spi->moving; i++) {
            if (spi->arrives_at[i] < coming) {
                coming = spi->arrives_at[i];
            }
        }
        if (coming != UINT64_MAX) {
            advance_to(chip->machine->counter, coming);
        }
    }
    const uint32_t sends = now(chip) >= spi->begins_at ? DRE : 0;
    const uint32_t received = spi->moving > 0 && now(chip) >= spi->arrives_at[0] ? RXC : 0;
    return sends | received | (now(chip) >= spi->ends_at ? TXC : 0);
}

static uint32_t take(struct samd21_spi *spi)
{
    const uint32_t byte = spi->received[0];

    spi->moving--;
    memmove(spi->received, spi->received + 1, spi->moving);
    memmove(spi->arrives_at, spi->arrives_at + 1, spi->moving * sizeof spi->arrives_at[0]);
    return byte;
}

/* False if anything about it is for Python to judge. */
static bool send(struct samd21 *chip, uint32_t value)
{
    struct samd21_spi *spi = &chip->spi;
    const uint8_t sent = (uint8_t)value;

    if (!spi->ready || !chip->bus.card->driven || now(chip) < spi->begins_at || spi->moving >= SAMD21_MOVING) {
        return false;
    }
    const uint64_t begin = now(chip) > spi->ends_at ? now(chip) : spi->ends_at;
    uint8_t received;
    spi->ends_at = spi_poll(&chip->bus, &sent, &received, 1, begin, spi->byte_cycles);
    spi->begins_at = begin;
    spi->received[spi->moving] = received;
    spi->arrives_at[spi->moving] = spi->ends_at;
    spi->moving++;
    return true;
}

bool samd21_load(void *context, uint32_t address, uint32_t width, uint32_t *value)
{
    struct samd21 *chip = context;
    struct samd21_spi *spi = &chip->spi;
    struct samd21_timer *timer = &chip->timer;

    if (address == SERCOM1_SPI_INTFLAG && width == 1) {
        *value = intflag(chip);
        return true;
    }
    if (address == SERCOM1_SPI_DATA && width == 4 && spi->moving > 0 && now(chip) >= spi->arrives_at[0]) {
        *value = take(spi);
        return true;
    }
    if (address == TC4_COUNT32_COUNT && width == 4 && timer->is_requested) {
        timer->is_requested = 0;
        *value = timer->requested;
        return true;
    }
    return false;
}

bool samd21_store(void *context, uint32_t address, uint32_t width, uint32_t value)
{
    struct samd21 *chip = context;
    struct samd21_timer *timer = &chip->timer;

    if (address == SERCOM1_SPI_DATA && width == 4) {
        return send(chip, value);
    }
    if (address == TC4_COUNT32_READREQ && width == 2 && value == READ_REQUEST_COUNT && timer->cycles_a_tick != 0) {
        timer->requested = (uint32_t)((now(chip) - timer->started_at) / timer->cycles_a_tick);
        timer->is_requested = 1;
        return true;
    }
    if ((address & ~0xFFFu) == NVIC_PAGE && width == 4) {
        return nvic_store(chip->nvic, address, value);
    }
    chip->spi.ready = 0;
    return false;
}

bool samd21_next_interrupt(void *context, uint64_t *when, uint32_t *number)
{
    const struct samd21 *chip = context;
    const struct samd21_timer *timer = &chip->timer;
    const bool pending = (timer->flags & MC0) != 0;

    *when = pending ? now(chip) : timer->due;
    *number = TC4_IRQ;
    return (chip->nvic->enabled >> TC4_IRQ & 1u) != 0 && (timer->interrupts & MC0) != 0 &&
           (pending || timer->due != UINT64_MAX);
}
