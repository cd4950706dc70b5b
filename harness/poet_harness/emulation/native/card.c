/* SPDX-License-Identifier: Apache-2.0 */
#include "card.h"

#include <stddef.h>
#include <string.h>

#define START_BLOCK 0xFEu
#define START_MULTIPLE 0xFCu
#define STOP_MULTIPLE 0xFDu
#define POLLS 8u

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool begins_command(uint8_t byte)
{
    return (byte & 0xC0u) == 0x40u;
}

static bool all_ones(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] != 0xFFu) {
            return false;
        }
    }
    return true;
}

static bool has_news(const struct card *card, uint64_t now)
{
    return card->out != NULL && card->out_when <= now;
}

static uint32_t take_data(struct card *card, const uint8_t *sent, uint32_t count, uint64_t now, uint64_t byte_cycles)
{
    const uint32_t taken = least(card->missing, count);

    memcpy(card->data + CARD_DATA_BYTES - card->missing, sent, taken);
    card->missing -= taken;
    if (card->missing == 0) {
        card->programme(now + taken * byte_cycles);
    }
    return taken;
}

static uint32_t give(struct card *card, uint8_t *received, uint32_t count, uint64_t now, uint64_t byte_cycles)
{
    const uint32_t given = least(card->out_left, count);

    memcpy(received, card->out, given);
    card->out += given;
    card->out_left -= given;
    if (card->out_left == 0) {
        card->given(now + given * byte_cycles);
    }
    return given;
}

static void take_frame_byte(struct card *card, uint8_t sent, uint64_t now)
{
    card->frame[card->frame_bytes++] = sent;
    if (card->frame_bytes == CARD_FRAME_BYTES) {
        card->frame_bytes = 0;
        card->command(now);
    }
}

static void take_token(struct card *card, uint8_t token, uint64_t now)
{
    if (token == (card->multiple ? START_MULTIPLE : START_BLOCK)) {
        card->missing = CARD_DATA_BYTES;
    } else if (token == STOP_MULTIPLE && card->multiple) {
        card->stop(now);
    } else if (begins_command(token)) {
        take_frame_byte(card, token, now);
    }
}

static uint8_t answer(struct card *card, uint64_t now)
{
    uint8_t byte = 0xFFu;

    if (card->response_bytes > 0) {
        byte = card->response[0];
        card->response_bytes--;
        memmove(card->response, card->response + 1, card->response_bytes);
    } else if (now < card->busy_until) {
        byte = 0;
    } else if (has_news(card, now)) {
        give(card, &byte, 1, now, 0);
    }
    return byte;
}

static uint8_t exchange_byte(struct card *card, uint8_t sent, uint64_t now)
{
    const uint8_t received = answer(card, now);

    if (card->frame_bytes > 0 || (!card->writing && begins_command(sent))) {
        take_frame_byte(card, sent, now);
    } else if (card->writing) {
        take_token(card, sent, now);
    }
    return received;
}

void card_exchange(struct card *card, const uint8_t *sent, uint8_t *received, uint32_t count, uint64_t begin,
                   uint64_t byte_cycles)
{
    const bool silent = all_ones(sent, count);
    uint32_t done = 0;

    while (done < count) {
        const uint64_t now = begin + done * byte_cycles;
        if (card->missing > 0) {
            const uint32_t taken = take_data(card, sent + done, count - done, now, byte_cycles);
            memset(received + done, 0xFF, taken);
            done += taken;
        } else if (silent && has_news(card, now) && now >= card->busy_until && card->response_bytes == 0) {
            done += give(card, received + done, count - done, now, byte_cycles);
        } else {
            received[done] = exchange_byte(card, sent[done], now);
            done++;
        }
    }
}

/* A controller that asks over and over for something that takes long: after a few fruitless polls the clock skips to
 * where the card has news. */
static uint64_t skip_waiting(struct spi_bus *bus, uint64_t begin)
{
    const struct card *card = bus->card;
    uint64_t pending = 0;

    if (begin < card->busy_until) {
        pending = card->busy_until;
    } else if (card->out != NULL && card->out_when > begin) {
        pending = card->out_when;
    }
    bus->polls = pending != 0 ? bus->polls + 1 : 0;
    if (pending == 0 || bus->polls <= POLLS) {
        return begin;
    }
    bus->polls = 0;
    advance_to(bus->counter, pending);
    return pending;
}

uint64_t spi_poll(struct spi_bus *bus, const uint8_t *sent, uint8_t *received, uint32_t count, uint64_t begin,
                  uint64_t byte_cycles)
{
    if (count == 1 && sent[0] == 0xFFu) {
        begin = skip_waiting(bus, begin);
    } else {
        bus->polls = 0;
    }
    card_exchange(bus->card, sent, received, count, begin, byte_cycles);
    return begin + count * byte_cycles;
}
