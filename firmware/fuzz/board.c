/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#include <string.h>

#include "poet/board.h"
#include "poet/status.h"

const char poet_board_name[] = "fuzz";
const uint32_t poet_board_ticks_hz = 1000u; /* traced runs wait between windows: few ticks, so not for long */

uint64_t fuzz_ram[FUZZ_RAM_BYTES / 8u];
uint8_t fuzz_card[FUZZ_CARD_BLOCKS * POET_BLOCK_BYTES];
uint32_t fuzz_card_faults;
static uint32_t ticks;

void fuzz_reset(void)
{
    memset(fuzz_ram, 0, sizeof fuzz_ram);
    memset(fuzz_card, 0, sizeof fuzz_card);
    memcpy(fuzz_card, "POET CARD 1\n", 12);
    fuzz_card_faults = 0;
    ticks = 0;
}

void poet_board_init(void)
{
}

uint32_t poet_board_ticks(void)
{
    return ++ticks;
}

int poet_board_getchar(void)
{
    return -1;
}

void poet_board_putchar(char byte)
{
    if (byte != '\n' && (byte < ' ' || byte > '~')) {
        __builtin_trap(); /* the line carries printable characters alone */
    }
}

void poet_board_flush(void)
{
}

void poet_board_window(bool inside)
{
    (void)inside;
}

void poet_board_idle(uint32_t duration)
{
    ticks += duration;
}

uint8_t *poet_board_ram(uint32_t *bytes)
{
    *bytes = sizeof fuzz_ram;
    return (uint8_t *)fuzz_ram;
}

uint32_t poet_board_boot_id(void)
{
    return 1;
}

void poet_board_sensors(poet_sensors *sensors)
{
    (void)sensors;
}

uint32_t poet_board_stack_peak(void)
{
    return 0;
}

static bool fails(void)
{
    const bool now = fuzz_card_faults & 1u;
    fuzz_card_faults >>= 1;
    return now;
}

/* The core must have checked that a transfer lies on the card. */
static uint8_t *place(uint32_t block, uint32_t bytes)
{
    const uint32_t blocks = (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    if (bytes == 0 || blocks > FUZZ_CARD_BLOCKS || block > FUZZ_CARD_BLOCKS - blocks) {
        __builtin_trap();
    }
    return fuzz_card + block * POET_BLOCK_BYTES;
}

static int read_card(void *context, uint32_t block, void *data, uint32_t bytes)
{
    (void)context;
    memcpy(data, place(block, bytes), bytes);
    return fails() ? POET_E_IO : POET_OK;
}

static int write_card(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    (void)context;
    memcpy(place(block, bytes), data, bytes);
    return fails() ? POET_E_IO : POET_OK;
}

static int sync_card(void *context)
{
    (void)context;
    return POET_OK;
}

int poet_board_storage(poet_block_device *device)
{
    *device = (poet_block_device){
        .block_count = FUZZ_CARD_BLOCKS,
        .read = read_card,
        .write = write_card,
        .sync = sync_card,
    };
    return POET_OK;
}

const bool poet_board_has_bootloader = true;

void poet_board_start(poet_start *start)
{
    *start = (poet_start){.cause = "stall", .waited_for = 1u, .failures = 1u};
}

void poet_board_enter_bootloader(void)
{
}
