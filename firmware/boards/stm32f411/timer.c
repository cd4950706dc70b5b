/* SPDX-License-Identifier: Apache-2.0 */
/* TIM2 as a free-running 32-bit counter of 10 MHz (RM0383, chapter 13). Its clock is twice the bus's. */
#include "timer.h"

#include "clocks.h"
#include "core.h"
#include "poet/board.h"
#include "registers.h"

/* Shorter than this, the counter could pass the compare value before it is set. */
#define SHORTEST_SLEEP 64u

const uint32_t poet_board_ticks_hz = TIMER_HZ;

void timer_init(void)
{
    RCC_APB1ENR |= RCC_APB1ENR_TIM2EN;
    TIM2_PSC = 2u * BUS_HZ / TIMER_HZ - 1u;
    TIM2_ARR = 0xFFFFFFFFu;
    TIM2_EGR = TIM2_EGR_UG; /* or the prescaler would wait for the counter's first end, in seven minutes */
    TIM2_CR1 = TIM2_CR1_CEN;
}

uint32_t poet_board_ticks(void)
{
    return TIM2_CNT;
}

static int woken(void)
{
    return (TIM2_SR & TIM2_SR_CC1IF) != 0u;
}

void poet_board_idle(uint32_t ticks)
{
    if (ticks < SHORTEST_SLEEP) {
        return;
    }
    TIM2_CCR1 = poet_board_ticks() + ticks;
    TIM2_SR = 0u;
    TIM2_DIER = TIM2_DIER_CC1IE;
    core_sleep_until(TIM2_IRQ, woken);
    TIM2_DIER = 0u;
    TIM2_SR = 0u;
}
