/* SPDX-License-Identifier: Apache-2.0 */
/* What Nordic's chips have in common: clock, pins, the bootloader. */
#include "poet/board.h"

#include "board_settings.h"
#include "card_spi.h"
#include "chip.h"
#include "core.h"
#include "failure.h"
#include "gpio.h"
#include "registers.h"
#include "serial.h"
#include "timer.h"
#include "wait.h"

static uint32_t reset_causes;

static void card_interrupt(void)
{
    if (card_spi_acknowledge()) {
        poet_sdcard_interrupt(&card_spi_card);
    }
}

/* The one interrupt that is ever taken, after the core's own entries of the vector table. */
typedef void (*vector)(void);
extern const vector nordic_interrupts[SPIM0_IRQ + 1u];
__attribute__((section(".vectors.interrupts"), used)) const vector nordic_interrupts[SPIM0_IRQ + 1u] = {
    [SPIM0_IRQ] = card_interrupt,
};

void poet_board_init(void)
{
    P0_OUTSET = PINS_HIGH_0;
    P1_OUTSET = PINS_HIGH_1;
    P0_DIRSET = PINS_HIGH_0 | PINS_LOW_0;
    P1_DIRSET = PINS_HIGH_1 | PINS_LOW_1;
    gpio_clear(PIN_WINDOW);
    gpio_configure(PIN_WINDOW, P1_PIN_CNF_DIR | P1_PIN_CNF_INPUT);
    reset_causes = chip_take_reset_causes();
    chip_init();
    CLOCK_EVENTS_HFCLKSTARTED = 0u;
    CLOCK_TASKS_HFCLKSTART = 1u;
    WAIT_UNTIL(CLOCK_EVENTS_HFCLKSTARTED != 0u, WAIT_CRYSTAL);
    timer_init();
    serial_init();
    card_spi_init();
}

void poet_board_start(poet_start *start)
{
    *start = (poet_start){.cause = chip_cause(reset_causes), .flags = reset_causes};
    start->regulator = chip_has_converter_on() ? "dcdc" : "ldo";
    failure_report(start);
}

/* What the bootloader looks for after a reset that the program asked for. */
void poet_board_enter_bootloader(void)
{
    POWER_GPREGRET = BOARD_BOOTLOADER_REQUEST;
    core_restart();
}
