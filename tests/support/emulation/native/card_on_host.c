/* SPDX-License-Identifier: Apache-2.0 */
/* The SD card driver on this machine: the test owns the clock and the bus. */
#include <stddef.h>

#include "poet/board.h"
#include "poet/sdcard.h"

uint32_t test_ticks;
const uint32_t poet_board_ticks_hz = 1000000u;

uint32_t poet_board_ticks(void)
{
    return test_ticks;
}

static poet_sdcard card;
static poet_block_device device;

int test_init(const poet_spi *spi);
int test_read(uint32_t block, void *data, uint32_t bytes);
int test_write(uint32_t block, const void *data, uint32_t bytes);
uint32_t test_block_count(void);
int test_start_write(uint32_t block, const void *data, uint32_t bytes);
int test_start_read(uint32_t block, void *data, uint32_t bytes);
int test_wait(void);
void test_interrupt(void);

int test_init(const poet_spi *spi)
{
    static poet_spi bus;
    bus = *spi;
    bus.ticks = poet_board_ticks;
    bus.ticks_hz = poet_board_ticks_hz;
    return poet_sdcard_init(&card, &bus, &device);
}

int test_read(uint32_t block, void *data, uint32_t bytes)
{
    return device.read(device.context, block, data, bytes);
}

int test_write(uint32_t block, const void *data, uint32_t bytes)
{
    return device.write(device.context, block, data, bytes);
}

uint32_t test_block_count(void)
{
    return device.block_count;
}

int test_start_write(uint32_t block, const void *data, uint32_t bytes)
{
    return device.start_write == NULL ? 1 : device.start_write(device.context, block, data, bytes);
}

int test_start_read(uint32_t block, void *data, uint32_t bytes)
{
    return device.start_read == NULL ? 1 : device.start_read(device.context, block, data, bytes);
}

int test_wait(void)
{
    return device.wait(device.context);
}

void test_interrupt(void)
{
    poet_sdcard_interrupt(&card);
}
