/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include "failure.h"
#include "poet/board.h"

/* The clock may be any: 2 ms at 64 MHz, 0.1 s at 1 MHz. */
#define PULSE_LOOPS 16384u
#define GAP_PULSES 8u
#define ROUNDS 3u

static void pause(uint32_t pulses)
{
    for (uint32_t left = pulses * PULSE_LOOPS; left > 0u; left--) {
        __asm__ volatile("nop\n\tnop\n\tnop\n\tnop");
    }
}

void wait_failed(enum wait_for what)
{
    for (uint32_t round = 0u; round < ROUNDS; round++) {
        for (uint32_t pulse = 0u; pulse < (uint32_t)what; pulse++) {
            poet_board_window(true);
            pause(1u);
            poet_board_window(false);
            pause(1u);
        }
        pause(GAP_PULSES);
    }
    failure_restart(FAILURE_STALL, (uint32_t)what);
}
