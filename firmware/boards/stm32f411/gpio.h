/* SPDX-License-Identifier: Apache-2.0 */
/* GPIO by the number of a pin: 32 times its port and its place there, as the board's settings have it (RM0383, 8.4). */
#ifndef STM32F411_GPIO_H
#define STM32F411_GPIO_H

#include <stdint.h>

#include "registers.h"

#define PORT_WORDS 256u
#define GPIO_OF(name, pin) ((&GPIOA_##name)[PORT_WORDS * ((pin) / 32u)])

enum gpio_mode { GPIO_INPUT = 0, GPIO_OUTPUT = 1, GPIO_ALTERNATE = 2 };

static inline void gpio_set(uint32_t pin)
{
    GPIO_OF(BSRR, pin) = 1u << (pin & 15u);
}

static inline void gpio_clear(uint32_t pin)
{
    GPIO_OF(BSRR, pin) = 0x10000u << (pin & 15u);
}

static inline void gpio_configure(uint32_t pin, enum gpio_mode mode)
{
    const uint32_t shift = 2u * (pin & 15u);

    GPIO_OF(MODER, pin) = (GPIO_OF(MODER, pin) & ~(3u << shift)) | (uint32_t)mode << shift;
}

static inline void gpio_pull_up(uint32_t pin)
{
    const uint32_t shift = 2u * (pin & 15u);

    GPIO_OF(PUPDR, pin) = (GPIO_OF(PUPDR, pin) & ~(3u << shift)) | 1u << shift;
}

/* Gives a pin to a peripheral. */
static inline void gpio_give(uint32_t pin, uint32_t function)
{
    const uint32_t shift = 4u * (pin & 7u);
    volatile uint32_t *const functions = (pin & 15u) < 8u ? &GPIO_OF(AFRL, pin) : &GPIO_OF(AFRH, pin);

    *functions = (*functions & ~(0xFu << shift)) | function << shift;
    gpio_configure(pin, GPIO_ALTERNATE);
}

#endif
