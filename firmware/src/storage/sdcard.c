#include "poet/sdcard.h"

#include <string.h>

#include "poet/board.h"
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

/* Control tokens (7.3.3). */
#define TOKEN_START_BLOCK 0xFEu
#define TOKEN_START_WRITE_MULTIPLE 0xFCu
#define TOKEN_STOP_WRITE_MULTIPLE 0xFDu
#define DATA_RESPONSE_MASK 0x1Fu
#define DATA_ACCEPTED 0x05u
#define DATA_CRC_ERROR 0x0Bu

#define IF_COND_3V3_CHECK 0x1AAu
#define HOST_SUPPORTS_SDHC 0x40000000u
#define OCR_CARD_CAPACITY_STATUS 0x40u /* in the first of the four bytes */

/* Time limits in milliseconds: 4.6.2 gives 100 for a read, 250 (500 for SDXC) for a write; 4.2.3 gives 1000 for start. */
#define LIMIT_READ 200u
#define LIMIT_WRITE 500u
#define LIMIT_START 1500u

#define IDENTIFICATION_HZ 400000u
#define WAKE_UP_BYTES 10u /* at least 74 clocks (6.4.1.1) */
#define GO_IDLE_TRIES 10
#define RESPONSE_BYTES 10 /* a response follows within 8 bytes (7.5.1.1) */
#define ATTEMPTS 3

/* --- bytes ----------------------------------------------------------------------------------------------------- */

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

static bool timed_out(uint32_t since, uint32_t limit_ms)
{
    return poet_board_ticks() - since > limit_ms * (poet_board_ticks_hz / 1000u);
}

/* The first byte that is not `unwanted`, or `unwanted` itself when none came in time. */
static uint8_t wait_for_other_than(const poet_sdcard *card, uint8_t unwanted, uint32_t limit_ms)
{
    const uint32_t start = poet_board_ticks();
    uint8_t byte;

    do {
        byte = receive_byte(card);
    } while (byte == unwanted && !timed_out(start, limit_ms));
    return byte;
}

/* A busy card holds its output low; it may let go in the middle of a byte. */
static int wait_until_ready(const poet_sdcard *card, uint32_t limit_ms)
{
    const uint32_t start = poet_board_ticks();

    while (receive_byte(card) != 0xFFu) {
        if (timed_out(start, limit_ms)) {
            return POET_E_IO;
        }
    }
    return POET_OK;
}

/* --- commands -------------------------------------------------------------------------------------------------- */

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

/* Sends a command to the selected card and returns its R1, or R1_NONE. */
static uint8_t command(const poet_sdcard *card, uint8_t index, uint32_t argument)
{
    uint8_t frame[6] = {
        (uint8_t)(0x40u | index),         (uint8_t)(argument >> 24), (uint8_t)(argument >> 16),
        (uint8_t)(argument >> 8),         (uint8_t)argument,         0u,
    };
    uint8_t response = R1_NONE;

    frame[5] = (uint8_t)((uint32_t)sdcard_crc7(frame, 5u) << 1 | 1u);
    if (index != STOP_TRANSMISSION) {
        (void)wait_until_ready(card, LIMIT_WRITE);
    }
    send_bytes(card, frame, sizeof frame);
    if (index == STOP_TRANSMISSION) {
        (void)receive_byte(card); /* a stuff byte of the read being stopped */
    }
    for (int byte = 0; byte < RESPONSE_BYTES && (response & 0x80u) != 0u; byte++) {
        response = receive_byte(card);
    }
    return response;
}

static uint8_t application_command(const poet_sdcard *card, uint8_t index, uint32_t argument)
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

/* What the card says about the transfer just made. */
static int transfer_status(const poet_sdcard *card)
{
    const uint8_t r1 = command(card, SEND_STATUS, 0u);
    const uint8_t r2 = receive_byte(card);
    const int status = status_of(r1);

    if (status != POET_OK || r2 == 0u) {
        return status;
    }
    return (r2 & R2_OUT_OF_RANGE) != 0u ? POET_E_FULL : POET_E_IO;
}

/* --- data ------------------------------------------------------------------------------------------------------ */

static int receive_data(const poet_sdcard *card, uint8_t *data, uint32_t bytes)
{
    const uint8_t token = wait_for_other_than(card, 0xFFu, LIMIT_READ);
    uint8_t crc[2];

    if (token != TOKEN_START_BLOCK) {
        return POET_E_IO; /* silence or a data error token (7.3.3.3) */
    }
    card->spi->transfer(card->spi->context, NULL, data, bytes);
    card->spi->transfer(card->spi->context, NULL, crc, sizeof crc);
    return sdcard_crc16(data, bytes) == ((uint32_t)crc[0] << 8 | crc[1]) ? POET_OK : POET_E_CORRUPT;
}

static int send_data(const poet_sdcard *card, uint8_t token, const uint8_t *data)
{
    const uint16_t sum = sdcard_crc16(data, POET_BLOCK_BYTES);
    const uint8_t crc[2] = {(uint8_t)(sum >> 8), (uint8_t)sum};
    uint8_t response;

    send_bytes(card, &token, 1u);
    send_bytes(card, data, POET_BLOCK_BYTES);
    send_bytes(card, crc, sizeof crc);
    response = receive_byte(card);
    if (response == 0xFFu) {
        return POET_E_ABSENT; /* even a card that refuses the block says so */
    }
    response &= DATA_RESPONSE_MASK;
    if (wait_until_ready(card, LIMIT_WRITE) != POET_OK) {
        return POET_E_IO;
    }
    if (response == DATA_ACCEPTED) {
        return POET_OK;
    }
    return response == DATA_CRC_ERROR ? POET_E_CORRUPT : POET_E_IO;
}

static uint32_t address_of(const poet_sdcard *card, uint32_t block)
{
    return card->byte_addressed ? block * POET_BLOCK_BYTES : block;
}

/* One run of blocks; `done` counts the bytes that arrived whole. */
static int read_run(poet_sdcard *card, uint32_t block, uint8_t *data, uint32_t bytes, uint32_t *done)
{
    const bool multiple = bytes > POET_BLOCK_BYTES;
    int status;

    select_card(card);
    status = status_of(command(card, multiple ? READ_MULTIPLE_BLOCK : READ_SINGLE_BLOCK, address_of(card, block)));
    if (status != POET_OK) {
        deselect_card(card);
        return status;
    }
    while (status == POET_OK && *done < bytes) {
        const uint32_t left = bytes - *done;
        if (left >= POET_BLOCK_BYTES) {
            status = receive_data(card, data + *done, POET_BLOCK_BYTES);
            *done += status == POET_OK ? POET_BLOCK_BYTES : 0u;
        } else {
            status = receive_data(card, card->edge, POET_BLOCK_BYTES);
            if (status == POET_OK) {
                memcpy(data + *done, card->edge, left);
                *done = bytes;
            }
        }
    }
    if (multiple) {
        const uint8_t r1 = command(card, STOP_TRANSMISSION, 0u);
        status = status == POET_OK ? status_of(r1) : status;
    }
    deselect_card(card);
    return status;
}

static int write_run(poet_sdcard *card, uint32_t block, const uint8_t *data, uint32_t bytes, uint32_t *done)
{
    const uint32_t count = (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    const bool multiple = count > 1u;
    int status = POET_OK;
    int outcome;

    select_card(card);
    if (multiple) {
        /* Erased ahead, the card takes the blocks at full speed (4.3.4). */
        status = status_of(application_command(card, SET_WR_BLK_ERASE_COUNT, count));
    }
    if (status == POET_OK) {
        status = status_of(command(card, multiple ? WRITE_MULTIPLE_BLOCK : WRITE_BLOCK, address_of(card, block)));
    }
    if (status != POET_OK) {
        deselect_card(card);
        return status;
    }
    (void)receive_byte(card); /* one byte between response and token (7.5.2.1) */
    while (status == POET_OK && *done < bytes) {
        const uint32_t left = bytes - *done;
        const uint8_t *source = data + *done;
        if (left < POET_BLOCK_BYTES) {
            memset(card->edge, 0, sizeof card->edge);
            memcpy(card->edge, source, left);
            source = card->edge;
        }
        status = send_data(card, multiple ? TOKEN_START_WRITE_MULTIPLE : TOKEN_START_BLOCK, source);
        if (status == POET_OK) {
            *done += left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        }
    }
    if (multiple && status == POET_OK) {
        const uint8_t stop[2] = {TOKEN_STOP_WRITE_MULTIPLE, 0xFFu};
        send_bytes(card, stop, sizeof stop);
    } else if (multiple && status != POET_E_ABSENT) {
        (void)command(card, STOP_TRANSMISSION, 0u);
    }
    outcome = wait_until_ready(card, LIMIT_WRITE);
    if (outcome == POET_OK) {
        outcome = transfer_status(card);
    }
    deselect_card(card);
    /* The card's own account is the better one, but for a CRC error, which R2 does not keep. */
    return outcome != POET_OK && status != POET_E_CORRUPT ? outcome : status;
}

/* --- block device ---------------------------------------------------------------------------------------------- */

static int check_range(const poet_sdcard *card, uint32_t block, uint32_t bytes)
{
    const uint32_t count = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u ? 1u : 0u);

    return block > card->block_count || count > card->block_count - block ? POET_E_FULL : POET_OK;
}

static int read_blocks(void *context, uint32_t block, void *data, uint32_t bytes)
{
    poet_sdcard *card = context;
    uint32_t done = 0u;
    int status = check_range(card, block, bytes);

    for (int attempt = 0; status == POET_OK && done < bytes && attempt < ATTEMPTS; attempt++) {
        const uint32_t first = done;
        uint32_t arrived = 0u;
        status = read_run(card, block + first / POET_BLOCK_BYTES, (uint8_t *)data + first, bytes - first, &arrived);
        done += arrived;
        if (status == POET_E_CORRUPT && attempt + 1 < ATTEMPTS) {
            status = POET_OK;
        }
    }
    return status;
}

static int write_blocks(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    poet_sdcard *card = context;
    uint32_t done = 0u;
    int status = check_range(card, block, bytes);

    for (int attempt = 0; status == POET_OK && done < bytes && attempt < ATTEMPTS; attempt++) {
        const uint32_t first = done;
        uint32_t sent = 0u;
        status =
            write_run(card, block + first / POET_BLOCK_BYTES, (const uint8_t *)data + first, bytes - first, &sent);
        done += sent;
        if (status == POET_E_CORRUPT && attempt + 1 < ATTEMPTS) {
            status = POET_OK;
        }
    }
    return status;
}

/* Every write has waited until the card was ready again. */
static int sync_blocks(void *context)
{
    (void)context;
    return POET_OK;
}

/* --- start ----------------------------------------------------------------------------------------------------- */

/* Card-Specific Data, versions 1.0 and 2.0 (5.3.2, 5.3.3). */
static uint32_t blocks_from_csd(const uint8_t *csd)
{
    if ((csd[0] >> 6) == 1u) {
        const uint32_t size = (uint32_t)(csd[7] & 0x3Fu) << 16 | (uint32_t)csd[8] << 8 | csd[9];
        return (size + 1u) << 10;
    }
    const uint32_t size = (uint32_t)(csd[6] & 0x03u) << 10 | (uint32_t)csd[7] << 2 | (uint32_t)csd[8] >> 6;
    const uint32_t multiplier = (uint32_t)(csd[9] & 0x03u) << 1 | (uint32_t)csd[10] >> 7;
    const uint32_t block_length = csd[5] & 0x0Fu;
    return (size + 1u) << (multiplier + 2u + block_length - 9u);
}

static int go_idle(const poet_sdcard *card)
{
    uint8_t response = R1_NONE;

    for (int attempt = 0; attempt < GO_IDLE_TRIES && response != R1_IDLE; attempt++) {
        response = command(card, GO_IDLE_STATE, 0u);
    }
    return response == R1_IDLE ? POET_OK : POET_E_ABSENT;
}

/* Version 2 cards echo the check pattern; version 1 cards do not know the command. */
static int negotiate_voltage(const poet_sdcard *card, bool *version_2)
{
    const uint8_t response = command(card, SEND_IF_COND, IF_COND_3V3_CHECK);
    uint8_t echo[4];

    *version_2 = (response & R1_ILLEGAL_COMMAND) == 0u;
    if (!*version_2) {
        return POET_OK;
    }
    card->spi->transfer(card->spi->context, NULL, echo, sizeof echo);
    return echo[2] == 0x01u && echo[3] == 0xAAu ? POET_OK : POET_E_UNSUPPORTED;
}

static int leave_idle(const poet_sdcard *card, bool version_2)
{
    const uint32_t start = poet_board_ticks();
    uint8_t response;

    do {
        response = application_command(card, SD_SEND_OP_COND, version_2 ? HOST_SUPPORTS_SDHC : 0u);
    } while (response == R1_IDLE && !timed_out(start, LIMIT_START));
    if (response == R1_IDLE) {
        return POET_E_IO;
    }
    return (response & R1_ILLEGAL_COMMAND) != 0u ? POET_E_UNSUPPORTED : status_of(response);
}

static int read_capacity(poet_sdcard *card, bool version_2)
{
    uint8_t ocr[4] = {0u};
    uint8_t csd[16];
    int status = status_of(command(card, READ_OCR, 0u));

    if (status != POET_OK) {
        return status;
    }
    card->spi->transfer(card->spi->context, NULL, ocr, sizeof ocr);
    card->byte_addressed = !version_2 || (ocr[0] & OCR_CARD_CAPACITY_STATUS) == 0u;
    if (card->byte_addressed) {
        status = status_of(command(card, SET_BLOCKLEN, POET_BLOCK_BYTES));
    }
    if (status == POET_OK) {
        status = status_of(command(card, SEND_CSD, 0u));
    }
    if (status == POET_OK) {
        status = receive_data(card, csd, sizeof csd);
    }
    if (status == POET_OK) {
        card->block_count = blocks_from_csd(csd);
    }
    return status;
}

static int identify(poet_sdcard *card)
{
    bool version_2 = false;
    int status = go_idle(card);

    if (status == POET_OK) {
        status = negotiate_voltage(card, &version_2);
    }
    if (status == POET_OK) {
        status = status_of(command(card, CRC_ON_OFF, 1u));
    }
    if (status == POET_OK) {
        status = leave_idle(card, version_2);
    }
    if (status == POET_OK) {
        status = read_capacity(card, version_2);
    }
    return status;
}

int poet_sdcard_init(poet_sdcard *card, const poet_spi *spi, poet_block_device *device)
{
    static const uint8_t wake_up[WAKE_UP_BYTES] = {
        0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu, 0xFFu,
    };
    int status;

    card->spi = spi;
    card->block_count = 0u;
    spi->set_speed(spi->context, IDENTIFICATION_HZ);
    spi->select(spi->context, false);
    send_bytes(card, wake_up, sizeof wake_up);
    select_card(card);
    status = identify(card);
    deselect_card(card);
    spi->set_speed(spi->context, spi->fastest_hz);
    *device = (poet_block_device){
        .context = card,
        .block_count = card->block_count,
        .read = read_blocks,
        .write = write_blocks,
        .sync = sync_blocks,
    };
    return status;
}
