/* SPDX-License-Identifier: Apache-2.0 */
/* USART2, the console. */
#ifndef STM32F411_SERIAL_H
#define STM32F411_SERIAL_H

void serial_init(void);

#endif
