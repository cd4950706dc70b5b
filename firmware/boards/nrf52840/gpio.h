/* SPDX-License-Identifier: Apache-2.0 */
/* GPIO by the number of a pin: 32 times its port and its place there, as PSEL counts, and the board's settings. */
#ifndef NORDIC_GPIO_H
#define NORDIC_GPIO_H

#include <stdint.h>

#include "registers.h"

#define PORT1 32u

static inline uint32_t gpio_bit(uint32_t pin)
{
    return 1u << (pin & 31u);
}

static inline void gpio_set(uint32_t pin)
{
    if (pin < PORT1) {
        P0_OUTSET = gpio_bit(pin);
    } else {
        P1_OUTSET = gpio_bit(pin);
    }
}

static inline void gpio_clear(uint32_t pin)
{
    if (pin < PORT1) {
        P0_OUTCLR = gpio_bit(pin);
    } else {
        P1_OUTCLR = gpio_bit(pin);
    }
}

static inline void gpio_configure(uint32_t pin, uint32_t value)
{
    if (pin < PORT1) {
        P0_PIN_CNF(pin) = value;
    } else {
        P1_PIN_CNF(pin - PORT1) = value;
    }
}

#endif
