/* TIMER0: the free-running counter behind poet_board_ticks and poet_board_idle. */
#ifndef NRF52840_TIMER_H
#define NRF52840_TIMER_H

void timer_init(void);

#endif
