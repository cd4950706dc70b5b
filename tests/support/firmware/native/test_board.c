/* SPDX-License-Identifier: Apache-2.0 */
/* A board for tests in one process: its RAM, card and clock are set, and what it did is read, from outside. */
#include "poet/board.h"

#include <string.h>

#include "poet/hooks.h"
#include "poet/status.h"

const char poet_board_name[] = "test";
const uint32_t poet_board_ticks_hz = 1000000u;

uint64_t test_ram[1u << 16];
uint32_t test_ram_bytes = sizeof test_ram;
poet_block_device test_card; /* absent while it has no `read` */
uint32_t test_tick_step = 1; /* by how much each look at the clock advances it */
uint32_t test_ticks;
uint32_t test_boot_id = 1;
poet_start test_start; /* tells nothing, until a test sets some */
uint32_t test_bootloader_entries;
poet_sensors test_sensors; /* none, until a test sets some */
char test_output[1u << 16];
uint32_t test_output_length;
uint8_t test_window_edges[1u << 12]; /* 1 for a rise, 0 for a fall */
uint32_t test_window_count;
static bool inside_window;
const poet_hooks test_hooks = {.ticks = poet_board_ticks, .ticks_hz = 1000000u, .window = poet_board_window};

void poet_board_init(void)
{
}

uint32_t poet_board_ticks(void)
{
    return test_ticks += test_tick_step;
}

void poet_board_idle(uint32_t ticks)
{
    test_ticks += ticks;
}

int poet_board_getchar(void)
{
    return -1;
}

void poet_board_putchar(char byte)
{
    if (test_output_length < sizeof test_output) {
        test_output[test_output_length++] = byte;
    }
}

void poet_board_flush(void)
{
}

void poet_board_window(bool inside)
{
    if (inside != inside_window && test_window_count < sizeof test_window_edges) {
        test_window_edges[test_window_count++] = inside;
    }
    inside_window = inside;
}

int poet_board_storage(poet_block_device *device)
{
    *device = test_card;
    return device->read != NULL ? POET_OK : POET_E_ABSENT;
}

uint8_t *poet_board_ram(uint32_t *bytes)
{
    *bytes = test_ram_bytes;
    return (uint8_t *)test_ram;
}

uint32_t poet_board_boot_id(void)
{
    return test_boot_id;
}

void poet_board_sensors(poet_sensors *sensors)
{
    *sensors = test_sensors;
}

uint32_t poet_board_stack_peak(void)
{
    return 0;
}

const bool poet_board_has_bootloader = true;

void poet_board_start(poet_start *start)
{
    *start = test_start;
}

void poet_board_enter_bootloader(void)
{
    test_bootloader_entries++;
}
