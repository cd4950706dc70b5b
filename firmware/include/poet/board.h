/* SPDX-License-Identifier: Apache-2.0 */
/* What a board gives the core. Each folder under firmware/boards/ implements exactly these functions.
 *
 * poet_board_flash is the exception: it is of those that have a flash.c. No function here allocates. An interrupt
 * serves the card's DMA at most; all else is polled.
 */
#ifndef POET_BOARD_H
#define POET_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name as in profiles/boards/NAME.toml. */
extern const char poet_board_name[];

/* Clocks, GPIO, UART, timer and SPI. Called once, first. */
void poet_board_init(void);

/* A free-running counter and its rate. 32 bits wrap; differences up to 2^32 ticks are exact. */
uint32_t poet_board_ticks(void);
extern const uint32_t poet_board_ticks_hz;

/* Next received byte, or -1 when none has come. */
int poet_board_getchar(void);
/* Blocks until the byte is accepted by the UART. */
void poet_board_putchar(char byte);
/* Returns when the last byte has left the line: the serial line is then quiet. */
void poet_board_flush(void);

/* The digital line that marks the measured window for a power meter: high inside. */
void poet_board_window(bool inside);

/* Sleeps (wait for interrupt, CPU clock stopped) for about `ticks`. Used to measure idle power. */
void poet_board_idle(uint32_t ticks);

/* Brings the storage up and fills `device`. POET_E_ABSENT with no card in the slot, POET_E_IO on error. */
int poet_board_storage(poet_block_device *device);

/* The end of the chip's own flash, in whole units, for commits. POET_E_FULL if the image reaches there. */
int poet_board_flash(uint32_t blocks, poet_block_device *device);

/* The RAM that holds the resident tensors and the arena, 8-byte aligned. */
uint8_t *poet_board_ram(uint32_t *bytes);

/* A number that differs between two boots (reset cause, noise, a counter): the host notices a reset by it. */
uint32_t poet_board_boot_id(void);

/* Why the board last started, and what it is fed by. Words are NULL, and numbers 0, for what a board cannot tell. */
typedef struct poet_start {
    const char *cause;       /* power, brownout, pin, watchdog, lockup, request; or of its own: fault, stack, stall */
    uint32_t flags;          /* the chip's register of reset causes, where it has one */
    const char *regulator;   /* dcdc or ldo */
    uint32_t failures;       /* faults, stacks and stalls since the power came */
    uint32_t pc, lr, status; /* of the last fault; status is the CFSR of an Armv7-M core */
    uint32_t waited_for;     /* in a stall: a number of docs/boards.md */
} poet_start;

void poet_board_start(poet_start *start);

/* Goes to the bootloader that waits for an upload, and does not return. Returns at once, with nothing done, where the
 * board has none: poet_board_has_bootloader says so. */
void poet_board_enter_bootloader(void);
extern const bool poet_board_has_bootloader;

/* Clock and temperature of the core, where the board can tell: a system that changes its clock. Read at the end of each
 * benchmark, outside of its window. */
typedef struct poet_sensors {
    bool has_clock;
    bool has_temperature;
    uint32_t cpu_khz;
    int32_t temperature_mc; /* thousandths of a degree Celsius */
} poet_sensors;

void poet_board_sensors(poet_sensors *sensors);

/* Most stack used since boot, in bytes (found by painting), or 0 where unknown. */
uint32_t poet_board_stack_peak(void);

#ifdef __cplusplus
}
#endif

#endif
