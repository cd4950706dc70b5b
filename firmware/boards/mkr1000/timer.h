/* SPDX-License-Identifier: Apache-2.0 */
/* TC4 and TC5, joined: the free-running counter behind poet_board_ticks and poet_board_idle. */
#ifndef MKR1000_TIMER_H
#define MKR1000_TIMER_H

void timer_init(void);

#endif
