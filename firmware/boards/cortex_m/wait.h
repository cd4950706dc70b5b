/* SPDX-License-Identifier: Apache-2.0 */
/* Waits on hardware that end. A crystal that never starts or a bus without its clock must not leave a mute board. */
#ifndef CORTEX_M_WAIT_H
#define CORTEX_M_WAIT_H

#include <stdint.h>

/* What is waited for; docs/boards.md lists the numbers. */
enum wait_for {
    WAIT_CRYSTAL = 1,
    WAIT_CLOCK = 2,
    WAIT_TIMER = 3,
    WAIT_SERIAL = 4,
    WAIT_CARD = 5,
    WAIT_RANDOM = 6,
    WAIT_FLASH = 7,
};

/* About ten cycles each: 5 s at the 1 MHz that a SAM D21 starts with, 80 ms at 64 MHz. The slowest crystal takes 3 s
 * and 2 ms; the longest transfer that is waited for, 16 ms. */
#define WAIT_POLLS (1u << 19)

#define WAIT_UNTIL(condition, what)   \
    do {                              \
        uint32_t polls_ = WAIT_POLLS; \
        while (!(condition)) {        \
            if (polls_-- == 0u) {     \
                wait_failed(what);    \
            }                         \
        }                             \
    } while (0)

/* Blinks the number on the window line, three times over, and restarts: `hello` tells it if the board comes up. */
__attribute__((noreturn)) void wait_failed(enum wait_for what);

#endif
