/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/sdcard.h"

#include <string.h>

#include "sdcard_crc.h"

/* Commands (Physical Layer Simplified Specification 7.3.1.3). */
enum {
    GO_IDLE_STATE = 0,
    SEND_IF_COND = 8,
    SEND_CSD = 9,
    STOP_TRANSMISSION = 12,
    SEND_STATUS = 13,
    SET_BLOCKLEN = 16,
    READ_SINGLE_BLOCK = 17,
    READ_MULTIPLE_BLOCK = 18,
    SET_WR_BLK_ERASE_COUNT = 23, /* after APP_CMD */
    WRITE_BLOCK = 24,
    WRITE_MULTIPLE_BLOCK = 25,
    SD_SEND_OP_COND = 41, /* after APP_CMD */
    APP_CMD = 55,
    READ_OCR = 58,
    CRC_ON_OFF = 59
};

/* R1 response (7.3.2.1) and the second byte of R2 (7.3.2.3). */
#define R1_IDLE 0x01u
#define R1_ILLEGAL_COMMAND 0x04u
#define R1_CRC_ERROR 0x08u
#define R1_ADDRESS_ERROR 0x20u
#define R1_PARAMETER_ERROR 0x40u
#define R1_NONE 0xFFu
#define R2_OUT_OF_RANGE 0x80u
#define R2_WRITE_PROTECTED 0x20u
#define R2_LOCKED 0x01u

/* Control tokens (7.3.3). */
#define TOKEN_START_BLOCK 0xFEu
#define TOKEN_START_WRITE_MULTIPLE 0xFCu
#define TOKEN_STOP_WRITE_MULTIPLE 0xFDu
#define DATA_RESPONSE_BITS 5u
#define DATA_ACCEPTED 0x05u
#define DATA_CRC_ERROR 0x0Bu
#define DATA_NO_RESPONSE 0xFFu

#define IF_COND_3V3_CHECK 0x1AAu
#define HOST_SUPPORTS_SDHC 0x40000000u
#define OCR_CARD_CAPACITY_STATUS 0x40u /* in the first of the four bytes */
#define CSD_BYTES 16u
#define CSD_WRITE_PROTECTION 0x30u /* byte 14: permanent, temporary */

/* Milliseconds that a card may take for anything: a read, a write, its start. 4.6.2 allows 100 to 500 and 4.2.3 a
 * second, but cards that tidy up have been met busy for two seconds. */
#define LIMIT_MS 3000u

#define IDENTIFICATION_HZ 400000u
#define WAKE_UP_BYTES 10u /* at least 74 clocks (6.4.1.1) */
#define CONVINCING_ANSWERS 2
#define COMMAND_BYTES 6u
#define RESPONSE_BYTES 10 /* a response follows within 8 bytes (7.5.1.1) */
#define ATTEMPTS 3
#define MOST_BLOCKS_AHEAD 64u /* that a card has looked further than it was asked to; no document says how many */
#define SLOWEST_DIVISOR 8u    /* of the fastest rate of the bus, before a transfer is given up for its CRC errors */

/* --- bytes --- */

static uint8_t receive_byte(const poet_sdcard *card)
{
    uint8_t byte = 0xFFu;

    card->spi->transfer(card->spi->context, NULL, &byte, 1u);
    return byte;
}

static void send_bytes(const poet_sdcard *card, const uint8_t *bytes, uint32_t count)
{
    card->spi->transfer(card->spi->context, bytes, NULL, count);
}

static void send_ones(poet_sdcard *card, uint32_t count)
{
    memset(card->edge, 0xFF, count);
    send_bytes(card, card->edge, count);
}

static bool timed_out(const poet_sdcard *card, uint32_t since)
{
    return card->spi->ticks() - since > LIMIT_MS * (card->spi->ticks_hz / 1000u);
}

/* The first byte that is not 0xFF, or 0xFF when none came in time. */
static uint8_t wait_for_token(const poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();
    uint8_t byte;

    do {
        byte = receive_byte(card);
    } while (byte == 0xFFu && !timed_out(card, start));
    return byte;
}

/* A busy card holds its output low; it may let go in the middle of a byte. */
static void wait_until_ready(const poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();

    while (receive_byte(card) != 0xFFu && !timed_out(card, start)) {
    }
}

/* --- commands --- */

static void select_card(const poet_sdcard *card)
{
    card->spi->select(card->spi->context, true);
}

/* The card lets go of its output only at a clock after deselection. */
static void deselect_card(const poet_sdcard *card)
{
    card->spi->select(card->spi->context, false);
    (void)receive_byte(card);
}

/* The bytes of a response after its first. */
static void receive_rest(poet_sdcard *card, uint8_t *bytes, uint32_t count)
{
    for (uint32_t place = 0u; place < count; place++) {
        const uint8_t next = receive_byte(card);
        bytes[place] = (uint8_t)(((uint32_t)card->held << 8 | next) >> ((8u - card->shift) % 8u));
        card->held = next;
    }
}

/* The first byte of a response, or R1_NONE. It begins with a zero bit, and some cards are out of step with the bytes:
 * `shift` keeps by how many bits, for what follows. */
static uint8_t receive_response(poet_sdcard *card)
{
    uint8_t first = R1_NONE;

    for (int byte = 0; byte < RESPONSE_BYTES && first == R1_NONE; byte++) {
        first = receive_byte(card);
    }
    card->shift = 0u;
    if (first == R1_NONE) {
        return R1_NONE;
    }
    while (((uint32_t)first << card->shift & 0x80u) != 0u) {
        card->shift++;
    }
    card->held = first;
    if (card->shift > 0u) {
        receive_rest(card, &first, 1u);
    }
    return first;
}

static void send_command(poet_sdcard *card, uint8_t index, uint32_t argument)
{
    uint8_t frame[COMMAND_BYTES] = {
        (uint8_t)(0x40u | index), (uint8_t)(argument >> 24), (uint8_t)(argument >> 16),
        (uint8_t)(argument >> 8), (uint8_t)argument,         0u,
    };

    frame[5] = (uint8_t)((uint32_t)poet_sdcard_crc7(frame, 5u) << 1 | 1u);
    send_bytes(card, frame, sizeof frame);
}

/* Sends a command to the selected card and returns its R1, or R1_NONE. */
static uint8_t command(poet_sdcard *card, uint8_t index, uint32_t argument)
{
    if (index != STOP_TRANSMISSION) {
        wait_until_ready(card);
    }
    send_command(card, index, argument);
    if (index == STOP_TRANSMISSION) {
        (void)receive_byte(card); /* a stuff byte of the read being stopped */
    }
    return receive_response(card);
}

/* A card that gets a command damaged does not carry it out. */
static uint8_t command_until_undamaged(poet_sdcard *card, uint8_t index)
{
    uint8_t response = command(card, index, 0u);

    for (int attempt = 1; attempt < ATTEMPTS && response != 0u && response != R1_NONE; attempt++) {
        response = command(card, index, 0u);
    }
    return response;
}

/* What is left of an answer that was not understood. */
static void clock_out(poet_sdcard *card)
{
    send_ones(card, POET_SDCARD_LOOK_BYTES);
}

/* While the card starts: it may miss a command, and bits may be lost on the way. */
static uint8_t command_in_time(poet_sdcard *card, uint8_t index, uint32_t argument)
{
    const uint32_t start = card->spi->ticks();
    uint8_t response;

    for (;;) {
        response = command(card, index, argument);
        if ((response & R1_CRC_ERROR) == 0u || timed_out(card, start)) { /* R1_NONE has that bit too */
            return response;
        }
        clock_out(card);
    }
}

static uint8_t application_command(poet_sdcard *card, uint8_t index, uint32_t argument)
{
    const uint8_t response = command(card, APP_CMD, 0u);

    return (response & (uint8_t)~R1_IDLE) == 0u ? command(card, index, argument) : response;
}

static int status_of(uint8_t r1)
{
    if (r1 == R1_NONE) {
        return POET_E_ABSENT;
    }
    if ((r1 & (R1_ADDRESS_ERROR | R1_PARAMETER_ERROR)) != 0u) {
        return POET_E_FULL; /* an address beyond the card's end */
    }
    if ((r1 & R1_CRC_ERROR) != 0u) {
        return POET_E_CORRUPT;
    }
    return (r1 & (uint8_t)~R1_IDLE) == 0u ? POET_OK : POET_E_IO;
}

/* Four commands that a card need not know: there is another way. */
static bool knows(const poet_sdcard *card, uint8_t index)
{
    return (card->unknown >> index & 1u) == 0u;
}

/* Notes a command that the card calls illegal, and no more. Idle, it says so of any; silence has that bit, too. */
static uint8_t note_unknown(poet_sdcard *card, uint8_t index, uint8_t response)
{
    card->unknown |= response == R1_ILLEGAL_COMMAND ? 1u << index : 0u;
    return response;
}

/* What the card says about the transfer just made. Of one that cannot tell, the responses to its data count. */
static int transfer_status(poet_sdcard *card)
{
    int status = POET_OK;
    uint8_t r2;

    if (knows(card, SEND_STATUS)) {
        status = status_of(note_unknown(card, SEND_STATUS, command_until_undamaged(card, SEND_STATUS)));
    }
    if (!knows(card, SEND_STATUS)) {
        return POET_OK;
    }
    receive_rest(card, &r2, 1u);
    if (status != POET_OK || r2 == 0u) {
        return status;
    }
    if ((r2 & (R2_WRITE_PROTECTED | R2_LOCKED)) != 0u) {
        return POET_E_PROTECTED;
    }
    return (r2 & R2_OUT_OF_RANGE) != 0u ? POET_E_FULL : POET_E_IO;
}

/* --- data --- */

static uint32_t address_of(const poet_sdcard *card, uint32_t block)
{
    return card->byte_addressed ? block * POET_BLOCK_BYTES : block;
}

/* --- transfers --- */

/* A transfer is a row of stages. Each starts one movement of bytes on the bus, and advance() goes on from there when
 * it is over: called by the interrupt where the bus works on its own, by a plain loop elsewhere. */
enum {
    NOTHING = 0,
    AGAIN,     /* to be begun once more, after a CRC error or a single block */
    READ_LOOK, /* for the start token of a block */
    READ_DATA,
    READ_LAST_CRC,
    WRITE_DATA,
    WRITE_RESPONSE,
    WRITE_BUSY,
    STOP_BUSY
};

static void start(poet_sdcard *card, uint8_t stage, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    card->stage = stage;
    if (card->spi->start != NULL) {
        card->spi->start(card->spi->context, send, receive, bytes);
    } else {
        card->spi->transfer(card->spi->context, send, receive, bytes);
    }
}

static void look(poet_sdcard *card, uint8_t stage)
{
    start(card, stage, NULL, card->look, POET_SDCARD_LOOK_BYTES);
}

static bool multiple(const poet_sdcard *card)
{
    return card->bytes > POET_BLOCK_BYTES && knows(card, card->writing ? WRITE_MULTIPLE_BLOCK : READ_MULTIPLE_BLOCK);
}

static uint32_t left(const poet_sdcard *card)
{
    return card->bytes - card->done;
}

/* A transfer whose bits were lost is begun again from the block where it stopped; where that block does not come
 * through at all, at a slower rate of the bus, which then stays. */
static bool worth_another_try(poet_sdcard *card)
{
    if (card->status != POET_E_CORRUPT || left(card) == 0u) {
        return false;
    }
    card->attempts = card->done > 0u ? 1u : (uint8_t)(card->attempts + 1u);
    if (card->attempts < ATTEMPTS) {
        return true;
    }
    card->attempts = 0u;
    if (card->hz <= card->spi->fastest_hz / SLOWEST_DIVISOR) {
        return false;
    }
    card->hz = card->hz == card->spi->fastest_hz ? card->hz / 2u : card->spi->fastest_hz / SLOWEST_DIVISOR;
    card->spi->set_speed(card->spi->context, card->hz);
    return true;
}

static void finish(poet_sdcard *card, int status)
{
    deselect_card(card);
    card->status = status;
    if (status == POET_OK) {
        card->attempts = 0u;
        card->stage = left(card) > 0u ? AGAIN : NOTHING; /* single blocks: the next is a transfer of its own */
    } else {
        card->stage = worth_another_try(card) ? AGAIN : NOTHING;
    }
}

/* Reading. */

/* The response to the end of a read, 0 if the card got it. A card that did not goes on with its data, which may look
 * like any response; one that gets it twice calls the second one illegal. */
static uint8_t stop_read(poet_sdcard *card)
{
    const uint32_t end = card->block + (card->bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    /* A card looks ahead, and says "out of range" where that leads beyond its last block: to be ignored (4.3.3). */
    const bool near_end = card->block_count - end < MOST_BLOCKS_AHEAD;
    const uint8_t ignored = near_end ? (R1_ADDRESS_ERROR | R1_PARAMETER_ERROR) : 0u;
    uint8_t response = command(card, STOP_TRANSMISSION, 0u);

    for (int attempt = 1; attempt < ATTEMPTS && (response & (uint8_t)~ignored) != 0u; attempt++) {
        response = command(card, STOP_TRANSMISSION, 0u);
        response = response == R1_ILLEGAL_COMMAND ? 0u : response;
    }
    if (near_end) {
        (void)transfer_status(card); /* it would be taken for the next write's otherwise */
    }
    return response == R1_NONE ? R1_NONE : response & (uint8_t)~ignored;
}

static void end_read(poet_sdcard *card, int status)
{
    if (multiple(card)) {
        const uint8_t r1 = stop_read(card);
        status = status == POET_OK ? status_of(r1) : status;
    }
    finish(card, status);
}

__attribute__((cold)) static bool check_fits(poet_sdcard *card)
{
    const uint32_t bytes = left(card);
    const bool whole = bytes >= POET_BLOCK_BYTES;
    const uint8_t *block = whole ? card->data + card->done : card->edge;

    card->check_pending = false;
    if (card->checks_crc && poet_sdcard_crc16(block, POET_BLOCK_BYTES) != card->crc) {
        return false;
    }
    if (!whole) {
        memcpy(card->data + card->done, card->edge, bytes);
    }
    card->done += whole ? POET_BLOCK_BYTES : bytes;
    return true;
}

/* Where block data of the block at `offset` goes. */
static uint8_t *read_target(poet_sdcard *card, uint32_t offset)
{
    return card->bytes - offset >= POET_BLOCK_BYTES ? card->data + offset : card->edge;
}

/* Looks through what has come for the start token. What follows it is data already. */
static void find_block(poet_sdcard *card)
{
    const bool behind_block = card->check_pending;
    const uint32_t next = card->done + (behind_block ? POET_BLOCK_BYTES : 0u);
    uint32_t place = behind_block ? 2u : 0u; /* two bytes of CRC come first */

    if (behind_block) {
        card->crc = (uint16_t)((uint32_t)card->look[0] << 8 | card->look[1]);
    }
    while (place < POET_SDCARD_LOOK_BYTES && card->look[place] == 0xFFu) {
        place++;
    }
    if (place == POET_SDCARD_LOOK_BYTES) {
        if (behind_block && !check_fits(card)) {
            end_read(card, POET_E_CORRUPT);
        } else if (timed_out(card, card->since_ticks)) {
            end_read(card, POET_E_IO);
        } else {
            look(card, READ_LOOK);
        }
        return;
    }
    if (card->look[place] != TOKEN_START_BLOCK) {
        end_read(card, POET_E_IO); /* a data error token (7.3.3.3) */
        return;
    }
    uint8_t *const target = read_target(card, next);
    const uint32_t early = POET_SDCARD_LOOK_BYTES - 1u - place;
    memcpy(target, card->look + place + 1u, early);
    start(card, READ_DATA, NULL, target + early, POET_BLOCK_BYTES - early);
    /* While the next block moves there is time to check the last. */
    if (behind_block && !check_fits(card)) {
        card->status = POET_E_CORRUPT;
    }
}

static void take_block(poet_sdcard *card)
{
    if (card->status != POET_OK) {
        end_read(card, card->status);
        return;
    }
    card->check_pending = true;
    card->since_ticks = card->spi->ticks();
    if (multiple(card) && left(card) > POET_BLOCK_BYTES) {
        look(card, READ_LOOK);
    } else {
        start(card, READ_LAST_CRC, NULL, card->look, 2u);
    }
}

static void take_last_crc(poet_sdcard *card)
{
    card->crc = (uint16_t)((uint32_t)card->look[0] << 8 | card->look[1]);
    end_read(card, check_fits(card) ? POET_OK : POET_E_CORRUPT);
}

/* Asks for a transfer. A card that lost its supply for a moment is idle, and has to be brought up anew. */
static int ask(poet_sdcard *card, uint8_t several, uint8_t single)
{
    const uint32_t address = address_of(card, card->block);
    uint8_t response = R1_NONE;

    if (multiple(card)) {
        response = note_unknown(card, several, command(card, several, address));
    }
    if (!multiple(card)) {
        response = command(card, single, address);
    }
    return response == R1_IDLE ? POET_E_IO : status_of(response);
}

static void begin_read(poet_sdcard *card)
{
    const int status = ask(card, READ_MULTIPLE_BLOCK, READ_SINGLE_BLOCK);

    if (status != POET_OK) {
        finish(card, status);
        return;
    }
    card->since_ticks = card->spi->ticks();
    look(card, READ_LOOK);
}

/* Writing. */

static void send_block(poet_sdcard *card)
{
    const uint8_t token = multiple(card) ? TOKEN_START_WRITE_MULTIPLE : TOKEN_START_BLOCK;
    const uint8_t *source = card->data + card->done;

    if (left(card) < POET_BLOCK_BYTES) {
        memset(card->edge, 0, sizeof card->edge);
        memcpy(card->edge, source, left(card));
        source = card->edge;
    }
    send_bytes(card, &token, 1u);
    start(card, WRITE_DATA, source, NULL, POET_BLOCK_BYTES);
    /* While the block moves: that takes several times as long. */
    card->crc = poet_sdcard_crc16(source, POET_BLOCK_BYTES);
}

static void send_crc(poet_sdcard *card)
{
    memset(card->send, 0xFF, sizeof card->send);
    card->send[0] = (uint8_t)(card->crc >> 8);
    card->send[1] = (uint8_t)card->crc;
    start(card, WRITE_RESPONSE, card->send, card->look, POET_SDCARD_LOOK_BYTES);
}

/* All blocks are sent, or one was refused: what does the card say? */
static void end_write(poet_sdcard *card)
{
    const int outcome = transfer_status(card);

    /* The card's own account is the better one, but for a CRC error, which R2 does not keep. */
    finish(card, outcome != POET_OK && card->status != POET_E_CORRUPT ? outcome : card->status);
}

static void stop_write(poet_sdcard *card)
{
    if (!multiple(card)) {
        end_write(card);
        return;
    }
    if (card->status == POET_OK) {
        const uint8_t stop[2] = {TOKEN_STOP_WRITE_MULTIPLE, 0xFFu};
        send_bytes(card, stop, sizeof stop);
    } else {
        (void)command(card, STOP_TRANSMISSION, 0u);
    }
    card->since_ticks = card->spi->ticks();
    look(card, STOP_BUSY);
}

/* The card holds its output low while it writes. */
static void wait_while_busy(poet_sdcard *card, uint8_t stage)
{
    if (card->look[POET_SDCARD_LOOK_BYTES - 1u] != 0xFFu) {
        if (timed_out(card, card->since_ticks)) {
            finish(card, POET_E_IO);
        } else {
            look(card, stage);
        }
    } else if (stage == STOP_BUSY) {
        end_write(card);
    } else if (multiple(card) && card->status == POET_OK && left(card) > 0u) {
        send_block(card);
    } else {
        stop_write(card);
    }
}

static uint32_t bit_of_look(const poet_sdcard *card, uint32_t place)
{
    return (uint32_t)card->look[place / 8u] >> (7u - place % 8u) & 1u;
}

/* The data response, 0sss1 (7.3.3.1), wherever it begins: some cards are late, or out of step with the bytes. */
static uint8_t data_response(const poet_sdcard *card)
{
    uint32_t place = 2u * 8u + 3u; /* after two bytes of CRC and three bits that may be anything */
    uint32_t response = 0u;

    while (place < POET_SDCARD_LOOK_BYTES * 8u && bit_of_look(card, place) != 0u) {
        place++;
    }
    if (place + DATA_RESPONSE_BITS > POET_SDCARD_LOOK_BYTES * 8u) {
        return DATA_NO_RESPONSE;
    }
    for (uint32_t bit = 0u; bit < DATA_RESPONSE_BITS; bit++) {
        response = response << 1 | bit_of_look(card, place + bit);
    }
    return (uint8_t)response;
}

static void take_response(poet_sdcard *card)
{
    const uint8_t response = data_response(card);

    if (response == DATA_NO_RESPONSE) {
        finish(card, POET_E_ABSENT); /* even a card that refuses a block says so */
        return;
    }
    if (response == DATA_ACCEPTED) {
        card->done += left(card) < POET_BLOCK_BYTES ? left(card) : POET_BLOCK_BYTES;
    } else {
        card->status = response == DATA_CRC_ERROR ? POET_E_CORRUPT : POET_E_IO;
    }
    card->since_ticks = card->spi->ticks();
    wait_while_busy(card, WRITE_BUSY);
}

static void begin_write(poet_sdcard *card)
{
    int status = POET_OK;

    if (multiple(card) && knows(card, SET_WR_BLK_ERASE_COUNT)) {
        /* Erased ahead, the card takes the blocks at full speed (4.3.4). It is a hint. */
        const uint32_t count = (card->bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
        const uint8_t response = application_command(card, SET_WR_BLK_ERASE_COUNT, count);
        status = status_of(note_unknown(card, SET_WR_BLK_ERASE_COUNT, response));
        status = knows(card, SET_WR_BLK_ERASE_COUNT) ? status : POET_OK;
    }
    if (status == POET_OK) {
        status = ask(card, WRITE_MULTIPLE_BLOCK, WRITE_BLOCK);
    }
    if (status != POET_OK) {
        finish(card, status);
        return;
    }
    (void)receive_byte(card); /* one byte between response and token (7.5.2.1) */
    send_block(card);
}

/* Begins a transfer, or what is left of it after a CRC error or a single block. */
static void begin(poet_sdcard *card)
{
    card->block += card->done / POET_BLOCK_BYTES;
    card->data += card->done;
    card->bytes -= card->done;
    card->done = 0u;
    card->status = POET_OK;
    card->check_pending = false;
    select_card(card);
    if (card->writing) {
        begin_write(card);
    } else {
        begin_read(card);
    }
}

static void advance(poet_sdcard *card)
{
    switch (card->stage) {
    case READ_LOOK:
        find_block(card);
        break;
    case READ_DATA:
        take_block(card);
        break;
    case READ_LAST_CRC:
        take_last_crc(card);
        break;
    case WRITE_DATA:
        send_crc(card);
        break;
    case WRITE_RESPONSE:
        take_response(card);
        break;
    case WRITE_BUSY:
    case STOP_BUSY:
        wait_while_busy(card, card->stage);
        break;
    default:
        break;
    }
    while (card->stage == AGAIN) {
        begin(card);
    }
}

void poet_sdcard_interrupt(poet_sdcard *card)
{
    advance(card);
}

/* --- block device --- */

static int start_transfer(poet_sdcard *card, uint32_t block, uint8_t *data, uint32_t bytes, bool writing)
{
    const uint32_t count = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u ? 1u : 0u);

    if (block > card->block_count || count > card->block_count - block) {
        return POET_E_FULL;
    }
    card->status = POET_OK;
    if (bytes == 0u) {
        return POET_OK;
    }
    card->block = block;
    card->data = data;
    card->bytes = bytes;
    card->done = 0u;
    card->attempts = 0u;
    card->writing = writing;
    do {
        begin(card);
    } while (card->stage == AGAIN);
    return POET_OK;
}

static int start_read(void *context, uint32_t block, void *data, uint32_t bytes)
{
    return start_transfer(context, block, data, bytes, false);
}

/* A transfer that writes only reads through its pointer. */
static int start_write(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const poet_sdcard *card = context;

    if (card->write_protected) {
        return POET_E_PROTECTED;
    }
    return start_transfer(context, block, (uint8_t *)(uintptr_t)data, bytes, true);
}

static int wait(void *context)
{
    poet_sdcard *card = context;

    while (card->stage != NOTHING) {
        if (card->spi->start != NULL) {
            card->spi->sleep(card->spi->context, &card->stage);
        } else {
            advance(card);
        }
    }
    return card->status;
}

static int read_blocks(void *context, uint32_t block, void *data, uint32_t bytes)
{
    const int status = start_read(context, block, data, bytes);

    return status != POET_OK ? status : wait(context);
}

static int write_blocks(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    const int status = start_write(context, block, data, bytes);

    return status != POET_OK ? status : wait(context);
}

/* Every write has waited until the card was ready again. */
static int sync_blocks(void *context)
{
    (void)context;
    return POET_OK;
}

/* --- start --- */

/* Card-Specific Data, versions 1.0 and 2.0 (5.3.2, 5.3.3); 0 if they are something else. */
__attribute__((cold)) static uint32_t blocks_from_csd(const uint8_t *csd)
{
    const uint32_t version = csd[0] >> 6;

    if (version == 1u) {
        const uint32_t size = (uint32_t)(csd[7] & 0x3Fu) << 16 | (uint32_t)csd[8] << 8 | csd[9];
        return (size + 1u) << 10;
    }
    const uint32_t size = (uint32_t)(csd[6] & 0x03u) << 10 | (uint32_t)csd[7] << 2 | (uint32_t)csd[8] >> 6;
    const uint32_t multiplier = (uint32_t)(csd[9] & 0x03u) << 1 | (uint32_t)csd[10] >> 7;
    const uint32_t block_length = csd[5] & 0x0Fu; /* as a power of two: 512, 1024 or 2048 bytes */

    if (version != 0u || block_length < 9u || block_length > 11u) {
        return 0u;
    }
    return (size + 1u) << (multiplier + 2u + block_length - 9u);
}

/* A board that was reset in the middle of a transfer finds a card that goes on with it and takes no other command. The
 * end of a read stops one of several blocks. A block of ones clocks the rest of a single block out; a card that waits
 * for the rest of a block takes it for that, and finds its CRC wrong. Then comes the end of a write. A card without a
 * transfer ignores all this, and so does one that is busy: it has to be said again. To wait for the card would be
 * wrong: it drives no line before it is in SPI mode. */
__attribute__((cold)) static void end_abandoned_transfer(poet_sdcard *card)
{
    static const uint8_t stop = TOKEN_STOP_WRITE_MULTIPLE;

    send_command(card, STOP_TRANSMISSION, 0u);
    send_ones(card, sizeof card->edge);
    send_ones(card, WAKE_UP_BYTES);
    send_bytes(card, &stop, 1u);
    send_ones(card, WAKE_UP_BYTES); /* a card not yet in SPI mode may take the token for the begin of a command */
}

/* Whether the card says that it is idle, in full: silence, the answer, and silence again. What floats, what rushes and
 * what is left of a block does not look like that twice in a row. */
__attribute__((cold)) static bool says_idle(poet_sdcard *card)
{
    send_command(card, GO_IDLE_STATE, 0u);
    return receive_byte(card) == 0xFFu && receive_response(card) == R1_IDLE && receive_byte(card) == 0xFFu;
}

__attribute__((cold)) static int go_idle(poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();
    int convincing = 0;

    end_abandoned_transfer(card);
    do {
        if (says_idle(card)) {
            convincing++;
        } else {
            convincing = 0;
            end_abandoned_transfer(card);
        }
    } while (convincing < CONVINCING_ANSWERS && !timed_out(card, start));
    return convincing == CONVINCING_ANSWERS ? POET_OK : POET_E_ABSENT;
}

/* Version 2 cards echo the check pattern; version 1 cards do not know the command. */
__attribute__((cold)) static int negotiate_voltage(poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();
    uint8_t echo[4] = {0u};
    uint8_t response;

    do {
        response = command_in_time(card, SEND_IF_COND, IF_COND_3V3_CHECK);
        if (response == R1_NONE) {
            return POET_E_ABSENT;
        }
        card->version_2 = (response & R1_ILLEGAL_COMMAND) == 0u;
        if (!card->version_2) {
            return POET_OK;
        }
        receive_rest(card, echo, sizeof echo);
    } while ((echo[2] != 0x01u || echo[3] != 0xAAu) && !timed_out(card, start));
    return echo[2] == 0x01u && echo[3] == 0xAAu ? POET_OK : POET_E_UNSUPPORTED;
}

/* The check of transfers is optional in SPI mode (7.2.2): some cards do not know the command. They are used without. */
__attribute__((cold)) static int switch_crc_on(poet_sdcard *card)
{
    uint8_t response = R1_NONE;

    for (int attempt = 0; attempt < ATTEMPTS && !card->checks_crc; attempt++) {
        response = command_in_time(card, CRC_ON_OFF, 1u);
        card->checks_crc = (response & (uint8_t)~R1_IDLE) == 0u;
    }
    return response == R1_NONE ? POET_E_ABSENT : POET_OK;
}

__attribute__((cold)) static int leave_idle(poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();
    uint8_t response;

    do {
        response = application_command(card, SD_SEND_OP_COND, card->version_2 ? HOST_SUPPORTS_SDHC : 0u);
    } while (response != 0u && !timed_out(card, start));
    if (response == 0u || response == R1_NONE) {
        return status_of(response);
    }
    return (response & R1_ILLEGAL_COMMAND) != 0u ? POET_E_UNSUPPORTED : POET_E_IO;
}

__attribute__((cold)) static int read_addressing(poet_sdcard *card)
{
    uint8_t ocr[4];
    const int status = status_of(command_in_time(card, READ_OCR, 0u));

    if (status != POET_OK) {
        return status;
    }
    receive_rest(card, ocr, sizeof ocr);
    card->byte_addressed = !card->version_2 || (ocr[0] & OCR_CARD_CAPACITY_STATUS) == 0u;
    return card->byte_addressed ? status_of(command_in_time(card, SET_BLOCKLEN, POET_BLOCK_BYTES)) : POET_OK;
}

/* Where transfers are not checked, the register's own checksum is. */
__attribute__((cold)) static int receive_csd(poet_sdcard *card, uint8_t *csd)
{
    uint8_t crc[2];

    if (wait_for_token(card) != TOKEN_START_BLOCK) {
        return POET_E_IO; /* silence or a data error token (7.3.3.3) */
    }
    card->spi->transfer(card->spi->context, NULL, csd, CSD_BYTES);
    card->spi->transfer(card->spi->context, NULL, crc, sizeof crc);
    const bool whole = card->checks_crc ? poet_sdcard_crc16(csd, CSD_BYTES) == ((uint32_t)crc[0] << 8 | crc[1])
                                        : csd[CSD_BYTES - 1u] >> 1 == poet_sdcard_crc7(csd, CSD_BYTES - 1u);
    return whole ? POET_OK : POET_E_CORRUPT;
}

__attribute__((cold)) static int read_csd(poet_sdcard *card)
{
    const uint32_t start = card->spi->ticks();
    uint8_t csd[CSD_BYTES];
    int status;

    do {
        status = status_of(command_in_time(card, SEND_CSD, 0u));
        if (status == POET_OK) {
            status = receive_csd(card, csd);
        }
        clock_out(card);
    } while (status != POET_OK && !timed_out(card, start));
    if (status != POET_OK) {
        return status;
    }
    card->block_count = blocks_from_csd(csd);
    card->write_protected = (csd[14] & CSD_WRITE_PROTECTION) != 0u;
    return card->block_count > 0u ? POET_OK : POET_E_UNSUPPORTED;
}

__attribute__((cold)) static int identify(poet_sdcard *card)
{
    static int (*const steps[])(poet_sdcard *) = {
        go_idle, negotiate_voltage, switch_crc_on, leave_idle, read_addressing, read_csd,
    };
    int status = POET_OK;

    for (uint32_t step = 0u; step < sizeof steps / sizeof steps[0] && status == POET_OK; step++) {
        status = steps[step](card);
    }
    return status;
}

__attribute__((cold)) int poet_sdcard_init(poet_sdcard *card, const poet_spi *spi, poet_block_device *device)
{
    int status;

    *card = (poet_sdcard){.spi = spi, .hz = spi->fastest_hz};
    spi->set_speed(spi->context, IDENTIFICATION_HZ);
    spi->select(spi->context, false);
    send_ones(card, WAKE_UP_BYTES);
    select_card(card);
    status = identify(card);
    deselect_card(card);
    spi->set_speed(spi->context, card->hz);
    *device = (poet_block_device){
        .context = card,
        .block_count = card->block_count,
        .read = read_blocks,
        .write = write_blocks,
        .sync = sync_blocks,
    };
    if (spi->start != NULL) {
        device->start_read = start_read;
        device->start_write = start_write;
        device->wait = wait;
    }
    return status;
}
