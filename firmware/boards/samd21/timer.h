/* SPDX-License-Identifier: Apache-2.0 */
/* TC4 and TC5, joined: the free-running counter of poet_board_ticks and poet_board_idle. */
#ifndef SAMD21_TIMER_H
#define SAMD21_TIMER_H

#include "clocks.h"

#define TIMER_HZ (CORE_HZ / 8u)

void timer_init(void);

#endif
