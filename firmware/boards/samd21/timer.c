/* SPDX-License-Identifier: Apache-2.0 */
/* TC4 with TC5 as its upper half: a free-running 32-bit counter of 48 MHz / 8 (data sheet chapter 30). */
#include "timer.h"

#include "clocks.h"
#include "core.h"
#include "poet/board.h"
#include "registers.h"
#include "wait.h"

#define COUNT_OFFSET 0x10u

/* Shorter than this, the counter could pass the compare value before it is set. */
#define SHORTEST_SLEEP 64u

const uint32_t poet_board_ticks_hz = TIMER_HZ;

static void synchronise(void)
{
    WAIT_UNTIL((TC4_COUNT32_STATUS & TC4_COUNT32_STATUS_SYNCBUSY) == 0u, WAIT_TIMER);
}

void timer_init(void)
{
    PM_APBCMASK |= PM_APBCMASK_TC4 | PM_APBCMASK_TC5;
    clocks_feed(GCLK_ID_TC4_TC5);
    TC4_COUNT32_CTRLA = TC4_COUNT32_CTRLA_SWRST;
    WAIT_UNTIL((TC4_COUNT32_CTRLA & TC4_COUNT32_CTRLA_SWRST) == 0u, WAIT_TIMER);
    synchronise();
    TC4_COUNT32_CTRLA = (uint16_t)(TC4_COUNT32_CTRLA_MODE(TC_MODE_COUNT32) |
                                   TC4_COUNT32_CTRLA_PRESCALER(TC_PRESCALER_DIV8) | TC4_COUNT32_CTRLA_ENABLE);
    synchronise();
}

uint32_t poet_board_ticks(void)
{
    /* The counter runs in its own clock domain: a read is requested and waited for (30.6.6). */
    TC4_COUNT32_READREQ = (uint16_t)(TC4_COUNT32_READREQ_RREQ | TC4_COUNT32_READREQ_ADDR(COUNT_OFFSET));
    synchronise();
    return TC4_COUNT32_COUNT;
}

static int woken(void)
{
    return (TC4_COUNT32_INTFLAG & TC4_COUNT32_INTFLAG_MC0) != 0u;
}

void poet_board_idle(uint32_t ticks)
{
    if (ticks < SHORTEST_SLEEP) {
        return;
    }
    TC4_COUNT32_CC0 = poet_board_ticks() + ticks;
    synchronise();
    TC4_COUNT32_INTFLAG = TC4_COUNT32_INTFLAG_MC0;
    TC4_COUNT32_INTENSET = TC4_COUNT32_INTFLAG_MC0;
    core_sleep_until(TC4_IRQ, woken);
    TC4_COUNT32_INTENCLR = TC4_COUNT32_INTFLAG_MC0;
    TC4_COUNT32_INTFLAG = TC4_COUNT32_INTFLAG_MC0;
}
