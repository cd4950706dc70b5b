/* SPDX-License-Identifier: Apache-2.0 */
/* STM32F411: pins, clocks, why it started. */
#include "poet/board.h"

#include "board_settings.h"
#include "card_spi.h"
#include "clocks.h"
#include "failure.h"
#include "gpio.h"
#include "registers.h"
#include "serial.h"
#include "timer.h"

static uint32_t reset_causes;

static void hold_pins(uint32_t pins, uint32_t port, bool high)
{
    for (uint32_t place = 0u; place < 16u; place++) {
        if ((pins & (1u << place)) != 0u) {
            (high ? gpio_set : gpio_clear)(32u * port + place);
            gpio_configure(32u * port + place, GPIO_OUTPUT);
        }
    }
}

void poet_board_init(void)
{
    static const uint32_t levels[][2] = {
        {PINS_LOW_0, PINS_HIGH_0},
        {PINS_LOW_1, PINS_HIGH_1},
        {PINS_LOW_2, PINS_HIGH_2},
    };

    RCC_AHB1ENR |= RCC_AHB1ENR_GPIOAEN | RCC_AHB1ENR_GPIOBEN | RCC_AHB1ENR_GPIOCEN;
    for (uint32_t port = 0u; port < 3u; port++) {
        hold_pins(levels[port][0], port, false);
        hold_pins(levels[port][1], port, true);
    }
    gpio_clear(PIN_WINDOW);
    gpio_configure(PIN_WINDOW, GPIO_OUTPUT);
    reset_causes = RCC_CSR;
    RCC_CSR |= RCC_CSR_RMVF; /* or the next start would see them again */
    clocks_init();
    timer_init();
    serial_init();
    card_spi_init();
}

/* Each reset pulls the reset pin, so its flag says nothing where another is set. */
static const char *cause_of(uint32_t flags)
{
    if ((flags & RCC_CSR_SFTRSTF) != 0u) {
        return "request";
    }
    if ((flags & (RCC_CSR_WDGRSTF | RCC_CSR_WWDGRSTF)) != 0u) {
        return "watchdog";
    }
    if ((flags & RCC_CSR_PORRSTF) != 0u) {
        return "power";
    }
    return (flags & RCC_CSR_BORRSTF) != 0u ? "brownout" : "pin";
}

void poet_board_start(poet_start *start)
{
    *start = (poet_start){.cause = cause_of(reset_causes), .flags = reset_causes};
    failure_report(start);
}

void poet_board_enter_bootloader(void)
{
}
