/* SPDX-License-Identifier: Apache-2.0 */
/* SAM D21: pins, why it started, the way to the bootloader. */
#include "poet/board.h"

#include "board_settings.h"
#include "card_spi.h"
#include "clocks.h"
#include "core.h"
#include "failure.h"
#include "gpio.h"
#include "registers.h"
#include "serial.h"
#include "timer.h"

/* The bootloader stays where it finds this word at the end of RAM after any reset but power-on: Arduino's double tap
 * (ArduinoCore-samd, bootloaders/zero/main.c). */
#define DOUBLE_TAP (*(volatile uint32_t *)(BOARD_RAM_END - 4u))

#if BOARD_CLOCK_HZ != 48000000
#error "clock_hz of the board's file: this driver runs a SAM D21 at 48 MHz"
#endif

void poet_board_init(void)
{
    PORT_OUTSET0 = PINS_HIGH_0;
    PORT_OUTSET1 = PINS_HIGH_1;
    PORT_DIRSET0 = PINS_HIGH_0 | PINS_LOW_0;
    PORT_DIRSET1 = PINS_HIGH_1 | PINS_LOW_1;
    gpio_clear(PIN_WINDOW);
    gpio_drive(PIN_WINDOW);
    clocks_init();
    timer_init();
    serial_init();
    card_spi_init();
}

static const char *cause_of(uint32_t flags)
{
    if ((flags & PM_RCAUSE_SYST) != 0u) {
        return "request";
    }
    if ((flags & PM_RCAUSE_WDT) != 0u) {
        return "watchdog";
    }
    if ((flags & PM_RCAUSE_EXT) != 0u) {
        return "pin";
    }
    return (flags & PM_RCAUSE_POR) != 0u ? "power" : "brownout";
}

void poet_board_start(poet_start *start)
{
    const uint32_t flags = PM_RCAUSE;

    *start = (poet_start){.cause = cause_of(flags), .flags = flags};
    failure_report(start);
}

void poet_board_enter_bootloader(void)
{
    DOUBLE_TAP = BOARD_BOOTLOADER_REQUEST;
    core_restart();
}
