/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM5 as USART, the line to the host. */
#ifndef SAMD21_SERIAL_H
#define SAMD21_SERIAL_H

void serial_init(void);

#endif
