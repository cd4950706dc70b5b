/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER0: the free-running counter of poet_board_ticks and poet_board_idle. */
#ifndef NORDIC_TIMER_H
#define NORDIC_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define TIMER_HZ 16000000u

void timer_init(void);

/* Raises TIMER0's interrupt in so many ticks, unless it is set anew before. */
void timer_set_alarm(uint32_t ticks);
bool timer_alarm_has_rung(void);
void timer_clear_alarm(void);

#endif
