/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: the SD card driver against a card that answers byte by byte as the specification has it, or in one
 * of the ways in which real cards differ, on a bus that turns bits over where the input says so. Whatever happened
 * there, and whatever transfer a reset of the board left behind: no access leaves its buffer, every call returns, and
 * once the bus is quiet the card can be used again. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../src/storage/sdcard_crc.h"
#include "board.h"
#include "poet/board.h"
#include "poet/sdcard.h"

#define CAPACITY_BLOCKS 2048u /* by both CSDs below */
#define MOST_BLOCKS 5u
#define START_TRIES 3u /* CMD41 until the card is ready */
#define BUSY_BYTES 40u /* after a block */
#define BYTES_A_TICK 2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- input --- */

static const uint8_t *input;
static size_t input_left;

static uint32_t take(void)
{
    if (input_left == 0) {
        return 0;
    }
    input_left--;
    return *input++;
}

static uint32_t take_two(void)
{
    const uint32_t low = take();
    return low | take() << 8;
}

/* --- card --- */

static struct {
    bool version_2, high_capacity, keeps_waiting, absent, knows_crc, checks_always;
    uint32_t shift;   /* how far its responses are out of step with the bytes */
    uint8_t undriven; /* what the line shows while no card drives it */
    uint8_t csd[16];

    bool selected, in_spi_mode, idle, crc_on, application;
    uint32_t start_tries;
    uint8_t frame[6];
    uint32_t framed;
    uint8_t answer[POET_BLOCK_BYTES + 16u]; /* what is still to be sent */
    uint32_t answered, answers;
    bool reading, writing, several;
    uint32_t block;
    uint8_t data[POET_BLOCK_BYTES + 2u];
    uint32_t missing; /* of a block that is being sent to the card */
} card;

static void put(uint8_t byte)
{
    card.answer[card.answers++] = byte;
}

static void forget_transfer(void)
{
    card.answered = card.answers = card.missing = card.framed = 0;
    card.reading = card.writing = false;
}

static void put_data(const uint8_t *bytes, uint32_t count)
{
    const uint16_t crc = poet_sdcard_crc16(bytes, count);
    put(0xFFu);
    put(0xFEu);
    memcpy(card.answer + card.answers, bytes, count);
    card.answers += count;
    put((uint8_t)(crc >> 8));
    put((uint8_t)crc);
}

static void put_response(uint8_t first, uint64_t rest, uint32_t rest_bytes)
{
    uint64_t bits = (uint64_t)first << 8u * rest_bytes | rest;
    put(0xFFu);
    if (card.shift > 0) {
        bits |= ((1ull << card.shift) - 1u) << 8u * (rest_bytes + 1u);
        bits = bits << (8u - card.shift) | (0xFFu >> card.shift);
        rest_bytes++;
    }
    for (uint32_t left = rest_bytes + 1u; left > 0; left--) {
        put((uint8_t)(bits >> 8u * (left - 1u)));
    }
}

static uint8_t r1(uint8_t errors)
{
    return errors | (card.idle ? 1u : 0u);
}

static void put_status(uint8_t errors)
{
    put_response(r1(errors), 0, 0);
}

static void begin_transfer(uint32_t argument, bool writing, bool several)
{
    card.block = card.high_capacity ? argument : argument / POET_BLOCK_BYTES;
    const bool there = card.block < FUZZ_CARD_BLOCKS;
    put_status(there ? 0u : 0x40u);
    card.writing = there && writing;
    card.reading = there && !writing;
    card.several = several;
}

static void obey(void)
{
    const uint32_t index = card.frame[0] & 0x3Fu;
    const uint32_t argument =
        (uint32_t)card.frame[1] << 24 | (uint32_t)card.frame[2] << 16 | (uint32_t)card.frame[3] << 8 | card.frame[4];
    const bool application = card.application;
    if (!card.in_spi_mode && index != 0) {
        return;
    }
    if (card.reading && (index != 12 || !card.several)) {
        return; /* goes on with the block that it sends */
    }
    card.application = false;
    card.answered = card.answers = 0;
    card.reading = card.writing = false;
    if ((card.crc_on || index == 0 || index == 8) && card.frame[5] != (poet_sdcard_crc7(card.frame, 5u) << 1 | 1)) {
        put_status(0x08u);
        return;
    }
    switch (index) {
    case 0:
        card.in_spi_mode = true;
        card.idle = true;
        card.crc_on = card.checks_always;
        card.start_tries = 0;
        put_status(0);
        break;
    case 8:
        if (card.version_2) {
            put_response(r1(0), argument & 0xFFFu, 4u);
        } else {
            put_status(0x04u);
        }
        break;
    case 9:
        put_status(0);
        put_data(card.csd, sizeof card.csd);
        break;
    case 12:
        put(0xFFu); /* a stuff byte */
        put_status(0);
        break;
    case 13:
        put_response(r1(0), 0, 1u);
        break;
    case 41:
        card.idle = !application || ++card.start_tries < START_TRIES;
        put_status(application ? 0 : 0x04u);
        break;
    case 55:
        card.application = true;
        put_status(0);
        break;
    case 58:
        put_response(r1(0), card.high_capacity ? 0xC0FF8000u : 0x80FF8000u, 4u);
        break;
    case 59:
        if (card.knows_crc) {
            card.crc_on = (argument & 1u) != 0;
        }
        put_status(card.knows_crc ? 0 : 0x04u);
        break;
    case 16:
    case 23:
        put_status(0);
        break;
    case 17:
    case 18:
    case 24:
    case 25:
        begin_transfer(argument, index >= 24u, index == 18u || index == 25u);
        break;
    default:
        put_status(0x04u);
        break;
    }
}

static void programme(void)
{
    const bool sound = poet_sdcard_crc16(card.data, POET_BLOCK_BYTES) ==
                       ((uint32_t)card.data[POET_BLOCK_BYTES] << 8 | card.data[POET_BLOCK_BYTES + 1u]);
    const bool there = card.block < FUZZ_CARD_BLOCKS;
    const uint32_t response = !sound && card.crc_on ? 0xEBu : there ? 0xE5u : 0xEDu;
    const uint32_t shifted = 0xFF0000u | response << 8;
    card.answered = card.answers = 0;
    put((uint8_t)(shifted >> (8u + card.shift)));
    if (card.shift > 0) {
        put((uint8_t)(shifted >> card.shift));
    }
    if ((sound || !card.crc_on) && there) {
        memcpy(fuzz_card + card.block++ * POET_BLOCK_BYTES, card.data, POET_BLOCK_BYTES);
    }
    for (uint32_t i = 0; i < BUSY_BYTES; i++) {
        put(0);
    }
    card.writing = card.several;
}

static void hear(uint8_t byte)
{
    if (card.framed > 0 || (byte & 0xC0u) == 0x40u) {
        card.frame[card.framed++] = byte;
        if (card.framed == sizeof card.frame) {
            card.framed = 0;
            obey();
        }
    } else if (card.writing && byte == (card.several ? 0xFCu : 0xFEu)) {
        card.missing = sizeof card.data;
    } else if (card.writing && card.several && byte == 0xFDu) {
        forget_transfer();
        for (uint32_t i = 0; i < BUSY_BYTES; i++) {
            put(0);
        }
    }
}

static uint8_t exchange(uint8_t sent)
{
    if (!card.selected || card.absent) {
        return card.undriven;
    }
    if (card.missing > 0) {
        card.data[sizeof card.data - card.missing--] = sent;
        if (card.missing == 0) {
            programme();
        }
        return 0xFFu;
    }
    if (card.answered == card.answers && card.reading) {
        card.answered = card.answers = 0;
        card.reading = card.several && card.block + 1u < FUZZ_CARD_BLOCKS;
        put_data(fuzz_card + card.block++ * POET_BLOCK_BYTES, POET_BLOCK_BYTES);
    }
    const uint8_t answer = card.answered < card.answers ? card.answer[card.answered++] : 0xFFu;
    const bool drives = card.in_spi_mode;
    hear(sent);
    return drives ? answer : card.undriven;
}

/* --- bus --- */

static poet_sdcard driver;
static uint32_t abandoned; /* movements of a read before the board is reset */
static bool noisy;         /* faults are still to come */
static uint32_t until_fault;
static struct {
    bool under_way;
    const uint8_t *send;
    uint8_t *receive;
    uint32_t bytes;
} moving;

static void next_fault(void)
{
    noisy = input_left >= 3u;
    until_fault = take_two();
}

static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    poet_board_idle(bytes / BYTES_A_TICK);
    for (uint32_t i = 0; i < bytes; i++) {
        const bool now = noisy && (until_fault & 0x7FFFu) == 0;
        const bool hits_answer = (until_fault & 0x8000u) != 0;
        const uint8_t turned = now ? (uint8_t)take() : 0;
        const uint8_t sent = send ? send[i] : 0xFFu;
        const uint8_t answer = exchange(hits_answer ? sent : sent ^ turned);
        if (receive) {
            receive[i] = hits_answer ? answer ^ turned : answer;
        }
        if (now) {
            next_fault();
        } else if (noisy) {
            until_fault--;
        }
    }
}

static void start(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    if (moving.under_way) {
        __builtin_trap();
    }
    moving.under_way = true;
    moving.send = send;
    moving.receive = receive;
    moving.bytes = bytes;
}

static void sleep_until_over(void *context, const volatile uint8_t *busy)
{
    if (*busy == 0 || !moving.under_way) {
        __builtin_trap(); /* nothing would ever wake it */
    }
    moving.under_way = false;
    transfer(context, moving.send, moving.receive, moving.bytes);
    poet_sdcard_interrupt(&driver);
}

static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    (void)hz;
}

static void select_card(void *context, bool selected)
{
    (void)context;
    if (card.selected && !selected && !card.keeps_waiting) {
        forget_transfer();
    }
    card.selected = selected;
}

/* --- checks --- */

static bool write_and_read(const poet_spi *spi, uint32_t block, uint32_t bytes)
{
    poet_block_device device;
    if (poet_sdcard_init(&driver, spi, &device) != POET_OK) {
        return false;
    }
    uint8_t *sent = malloc(bytes); /* so that the sanitizer knows where they end */
    uint8_t *back = malloc(bytes);
    if (!sent || !back) {
        abort();
    }
    for (uint32_t i = 0; i < bytes; i++) {
        sent[i] = (uint8_t)(7u * i + block);
    }
    if (abandoned > 0 && spi->start && device.start_read(device.context, block, back, bytes) == POET_OK) {
        for (; abandoned > 0 && moving.under_way; abandoned--) {
            sleep_until_over(NULL, &driver.stage);
        }
        moving.under_way = false; /* the board is reset; the card knows nothing of it */
        select_card(NULL, false);
        free(sent);
        free(back);
        return true;
    }
    const int written = device.write(device.context, block, sent, bytes);
    const int read = device.read(device.context, block, back, bytes);
    const bool same = memcmp(sent, back, bytes) == 0;
    free(sent);
    free(back);
    return written == POET_OK && read == POET_OK && same;
}

/* The first bytes say what card there is and what to do with it, the others where the bus fails: three bytes each. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reset();
    input = data;
    input_left = size;
    memset(&card, 0, sizeof card);
    moving.under_way = false;

    const uint32_t flags = take();
    const bool any_csd = (flags & 1u) != 0;
    const bool has_dma = (flags & 2u) != 0;
    card.keeps_waiting = (flags & 4u) != 0;
    card.version_2 = (flags & 8u) != 0;
    card.high_capacity = card.version_2 && (flags & 16u) != 0;
    card.absent = (flags & 0xE0u) == 0xE0u;
    const uint32_t more = take();
    card.shift = more & 7u;
    card.knows_crc = (more & 8u) == 0;
    card.checks_always = (more & 16u) != 0;
    card.undriven = (more & 32u) != 0 ? 0x00u : 0xFFu;
    abandoned = more >> 6;
    const uint32_t block = take_two() % (CAPACITY_BLOCKS - MOST_BLOCKS);
    const uint32_t bytes = take_two() % (MOST_BLOCKS * POET_BLOCK_BYTES) + 1u;
    /* Version 2: (1 + 1) * 1024 blocks; version 1: (511 + 1) << (0 + 2) blocks of 512 bytes. */
    static const uint8_t version_2[16] = {0x40, [9] = 1};
    static const uint8_t version_1[16] = {[5] = 9, [7] = 0x7F, [8] = 0xC0};
    memcpy(card.csd, card.high_capacity ? version_2 : version_1, sizeof card.csd);
    for (uint32_t i = 0; any_csd && i < sizeof card.csd; i++) {
        card.csd[i] = (uint8_t)take();
    }
    card.csd[15] = (uint8_t)((uint32_t)poet_sdcard_crc7(card.csd, 15u) << 1 | 1u);

    const poet_spi spi = {
        .fastest_hz = 8000000u,
        .set_speed = set_speed,
        .select = select_card,
        .transfer = transfer,
        .start = has_dma ? start : NULL,
        .sleep = has_dma ? sleep_until_over : NULL,
        .ticks = poet_board_ticks,
        .ticks_hz = poet_board_ticks_hz,
    };
    next_fault();
    const bool with_reset = abandoned > 0 && has_dma;
    (void)write_and_read(&spi, block, bytes);
    if (with_reset) {
        (void)write_and_read(&spi, block, bytes);
    }
    noisy = false;
    abandoned = 0;
    const bool works = write_and_read(&spi, block, bytes);
    if (!works && !any_csd && !card.absent) {
        __builtin_trap();
    }
    return 0;
}
