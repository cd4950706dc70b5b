/* SPDX-License-Identifier: Apache-2.0 */
#include "byte_spi.h"

#include <string.h>

static uint64_t now(const struct byte_spi *spi)
{
    return spi->machine->counter->cycles;
}

static bool has_received(const struct byte_spi *spi)
{
    return spi->moving > 0 && spi->arrives_at[0] <= now(spi);
}

/* The CPU asks over and over: where nothing has come, the clock skips to the next flag. */
static uint32_t status(const struct byte_spi *spi)
{
    uint64_t coming = UINT64_MAX;

    if (!has_received(spi)) {
        if (spi->begins_at > now(spi)) {
            coming = spi->begins_at;
        }
        for (uint32_t i = 0; i < spi->moving; i++) {
            if (spi->arrives_at[i] < coming) {
                coming = spi->arrives_at[i];
            }
        }
        if (coming != UINT64_MAX) {
            advance_to(spi->machine->counter, coming);
        }
    }
    return (now(spi) >= spi->begins_at ? spi->takes : 0) | (has_received(spi) ? spi->received_one : 0) |
           (now(spi) >= spi->ends_at ? spi->idle : spi->busy);
}

static uint32_t take(struct byte_spi *spi)
{
    const uint32_t byte = spi->received[0];

    spi->moving--;
    memmove(spi->received, spi->received + 1, spi->moving);
    memmove(spi->arrives_at, spi->arrives_at + 1, spi->moving * sizeof spi->arrives_at[0]);
    return byte;
}

static bool send(struct byte_spi *spi, uint32_t value)
{
    const uint8_t sent = (uint8_t)value;

    if (!spi->machine->spi_checked || !spi->bus.card->driven || now(spi) < spi->begins_at ||
        spi->moving >= spi->most_moving) {
        return false;
    }
    const uint64_t begin = now(spi) > spi->ends_at ? now(spi) : spi->ends_at;
    uint8_t received;
    spi->ends_at = spi_poll(&spi->bus, &sent, &received, 1, begin, spi->byte_cycles);
    spi->begins_at = begin;
    spi->received[spi->moving] = received;
    spi->arrives_at[spi->moving] = spi->ends_at;
    spi->moving++;
    return true;
}

bool byte_spi_load(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value)
{
    struct byte_spi *spi = peripheral;

    if (offset == spi->status && width == spi->status_width) {
        *value = status(spi);
        return true;
    }
    if (offset == spi->data && width == spi->data_width && has_received(spi)) {
        *value = take(spi);
        return true;
    }
    return false;
}

bool byte_spi_store(void *peripheral, uint32_t offset, uint32_t width, uint32_t value)
{
    struct byte_spi *spi = peripheral;

    return offset == spi->data && width == spi->data_width && send(spi, value);
}
