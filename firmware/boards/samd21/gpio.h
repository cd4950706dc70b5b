/* SPDX-License-Identifier: Apache-2.0 */
/* GPIO by the number of a pin: 32 for PB, and its place in the group, as the board's settings have it. */
#ifndef SAMD21_GPIO_H
#define SAMD21_GPIO_H

#include <stdint.h>

#include "registers.h"

#define GROUP1 32u

static inline uint32_t gpio_bit(uint32_t pin)
{
    return 1u << (pin & 31u);
}

static inline void gpio_set(uint32_t pin)
{
    if (pin < GROUP1) {
        PORT_OUTSET0 = gpio_bit(pin);
    } else {
        PORT_OUTSET1 = gpio_bit(pin);
    }
}

static inline void gpio_clear(uint32_t pin)
{
    if (pin < GROUP1) {
        PORT_OUTCLR0 = gpio_bit(pin);
    } else {
        PORT_OUTCLR1 = gpio_bit(pin);
    }
}

static inline void gpio_drive(uint32_t pin)
{
    if (pin < GROUP1) {
        PORT_DIRSET0 = gpio_bit(pin);
    } else {
        PORT_DIRSET1 = gpio_bit(pin);
    }
}

#endif
