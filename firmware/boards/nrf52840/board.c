/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840: debug port, supply, clocks, the window line, why it started, the bootloader, the boot number, the card. */
#include "poet/board.h"

#include "board_settings.h"
#include "card_spi.h"
#include "core.h"
#include "failure.h"
#include "gpio.h"
#include "poet/sdcard.h"
#include "registers.h"
#include "serial.h"
#include "startup.h"
#include "timer.h"
#include "wait.h"

#if BOARD_CLOCK_HZ != 64000000
#error "clock_hz of the board's file: an nRF52840 has 64 MHz and no other"
#endif

const char poet_board_name[] = BOARD_NAME;
const bool poet_board_has_bootloader = BOARD_BOOTLOADER != 0;

static uint32_t reset_causes;

static poet_sdcard card;

static void card_interrupt(void)
{
    if (card_spi_acknowledge()) {
        poet_sdcard_interrupt(&card);
    }
}

/* The one interrupt that is ever taken, after the core's own entries of the vector table. */
typedef void (*vector)(void);
extern const vector nrf52840_interrupts[SPIM0_IRQ + 1u];
__attribute__((section(".vectors.interrupts"), used)) const vector nrf52840_interrupts[SPIM0_IRQ + 1u] = {
    [SPIM0_IRQ] = card_interrupt,
};

/* From build code F0 on, every reset locks the debug port until the firmware opens it. UICR says whether it may, as in
 * Nordic's nrf52_handle_approtect. */
void startup_first(void)
{
    if (FICR_PART_CODE == PART_CODE_NRF52840 && FICR_REVISION_CODE >= REVISION_CODE_F0) {
        APPROTECT_DISABLE = UICR_APPROTECT;
    }
}

void poet_board_init(void)
{
    P0_OUTSET = PINS_HIGH_0;
    P1_OUTSET = PINS_HIGH_1;
    P0_DIRSET = PINS_HIGH_0 | PINS_LOW_0;
    P1_DIRSET = PINS_HIGH_1 | PINS_LOW_1;
    gpio_clear(PIN_WINDOW);
    gpio_configure(PIN_WINDOW, P1_PIN_CNF_DIR | P1_PIN_CNF_INPUT);
    reset_causes = POWER_RESETREAS;
    POWER_RESETREAS = reset_causes; /* or the next start would see them again */
    POWER_DCDCEN = BOARD_DCDC != 0 ? POWER_DCDCEN_DCDCEN : 0u;
    NVMC_ICACHECNF = NVMC_ICACHECNF_CACHEEN;
    CLOCK_EVENTS_HFCLKSTARTED = 0u;
    CLOCK_TASKS_HFCLKSTART = 1u;
    WAIT_UNTIL(CLOCK_EVENTS_HFCLKSTARTED != 0u, WAIT_CRYSTAL);
    timer_init();
    serial_init();
    card_spi_init();
}

void poet_board_window(bool inside)
{
    if (inside) {
        gpio_set(PIN_WINDOW);
    } else {
        gpio_clear(PIN_WINDOW);
    }
}

uint32_t poet_board_boot_id(void)
{
    uint32_t id = 0u;

    RNG_TASKS_START = 1u;
    for (int byte = 0; byte < 4; byte++) {
        RNG_EVENTS_VALRDY = 0u;
        WAIT_UNTIL(RNG_EVENTS_VALRDY != 0u, WAIT_RANDOM);
        id = (id << 8) | (RNG_VALUE & 0xFFu);
    }
    RNG_TASKS_STOP = 1u;
    return id;
}

static const char *cause_of(uint32_t flags)
{
    if ((flags & POWER_RESETREAS_LOCKUP) != 0u) {
        return "lockup";
    }
    if ((flags & POWER_RESETREAS_DOG) != 0u) {
        return "watchdog";
    }
    if ((flags & POWER_RESETREAS_SREQ) != 0u) {
        return "request";
    }
    return (flags & POWER_RESETREAS_RESETPIN) != 0u ? "pin" : "power"; /* no bit: power came, or browned out */
}

void poet_board_start(poet_start *start)
{
    *start = (poet_start){.cause = cause_of(reset_causes), .flags = reset_causes};
    start->regulator = (POWER_DCDCEN & POWER_DCDCEN_DCDCEN) != 0u ? "dcdc" : "ldo";
    failure_report(start);
}

/* What the bootloader looks for after a reset that the program asked for. */
void poet_board_enter_bootloader(void)
{
    POWER_GPREGRET = BOARD_BOOTLOADER_REQUEST;
    __asm__ volatile("dsb" ::: "memory");
    SCB_AIRCR = SCB_AIRCR_SYSRESETREQ;
    for (;;) {
    }
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&card, &card_spi, device);
}
