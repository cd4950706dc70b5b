/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER0 as a free-running 32-bit counter of the 16 MHz peripheral clock (Product Specification 6.30). */
#include "timer.h"

#include "core.h"
#include "poet/board.h"
#include "registers.h"

#define NOW 0u   /* capture channel that reads the counter */
#define WAKE 1u  /* compare channel that ends poet_board_idle */
#define ALARM 2u /* compare channel that ends a sleep which nothing else has ended */

/* Shorter than this, the counter could pass the compare value before it is set. */
#define SHORTEST_SLEEP 64u

const uint32_t poet_board_ticks_hz = TIMER_HZ;

void timer_init(void)
{
    TIMER0_TASKS_STOP = 1u;
    TIMER0_MODE = 0u;
    TIMER0_BITMODE = TIMER0_BITMODE_32;
    TIMER0_PRESCALER = 0u;
    TIMER0_TASKS_CLEAR = 1u;
    TIMER0_TASKS_START = 1u;
}

uint32_t poet_board_ticks(void)
{
    TIMER0_TASKS_CAPTURE(NOW) = 1u;
    return TIMER0_CC(NOW);
}

void timer_set_alarm(uint32_t ticks)
{
    TIMER0_EVENTS_COMPARE(ALARM) = 0u;
    TIMER0_CC(ALARM) = poet_board_ticks() + ticks;
    TIMER0_INTENSET = TIMER0_INTENSET_COMPARE2;
}

bool timer_alarm_has_rung(void)
{
    return TIMER0_EVENTS_COMPARE(ALARM) != 0u;
}

void timer_clear_alarm(void)
{
    TIMER0_INTENCLR = TIMER0_INTENSET_COMPARE2;
    TIMER0_EVENTS_COMPARE(ALARM) = 0u;
}

static int woken(void)
{
    return TIMER0_EVENTS_COMPARE(WAKE) != 0u;
}

void poet_board_idle(uint32_t ticks)
{
    if (ticks < SHORTEST_SLEEP) {
        return;
    }
    TIMER0_EVENTS_COMPARE(WAKE) = 0u;
    TIMER0_CC(WAKE) = poet_board_ticks() + ticks;
    TIMER0_INTENSET = TIMER0_INTENSET_COMPARE1;
    core_sleep_until(TIMER0_IRQ, woken);
    TIMER0_INTENCLR = TIMER0_INTENSET_COMPARE1;
    TIMER0_EVENTS_COMPARE(WAKE) = 0u;
}
