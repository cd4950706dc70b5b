/* SPDX-License-Identifier: Apache-2.0 */
/* The 48 MHz clock of the core and of the peripherals. */
#ifndef SAMD21_CLOCKS_H
#define SAMD21_CLOCKS_H

#include <stdint.h>

#define CORE_HZ 48000000u

void clocks_init(void);

/* Feeds generic clock `id` from the 48 MHz generator. */
void clocks_feed(uint32_t id);

#endif
