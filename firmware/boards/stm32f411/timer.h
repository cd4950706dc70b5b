/* SPDX-License-Identifier: Apache-2.0 */
/* TIM2, the board's clock. */
#ifndef STM32F411_TIMER_H
#define STM32F411_TIMER_H

#define TIMER_HZ 10000000u

void timer_init(void);

#endif
