/* SPDX-License-Identifier: Apache-2.0 */
/* UART0, the line to the host. */
#ifndef NRF52840_SERIAL_H
#define NRF52840_SERIAL_H

void serial_init(void);

#endif
