/* SPDX-License-Identifier: Apache-2.0 */
/* 100 MHz from the clock of the board; 50 MHz for all peripherals. */
#ifndef STM32F411_CLOCKS_H
#define STM32F411_CLOCKS_H

#define CORE_HZ 100000000u
#define BUS_HZ 50000000u

void clocks_init(void);

#endif
