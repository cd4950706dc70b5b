/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host. */
#ifndef NORDIC_SERIAL_H
#define NORDIC_SERIAL_H

void serial_init(void);

#endif
