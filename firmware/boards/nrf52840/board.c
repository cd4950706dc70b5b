/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840: debug port, supply, clocks, the window line, why it started, the boot number, the card. */
#include "poet/board.h"

#include "card_spi.h"
#include "failure.h"
#include "pins.h"
#include "poet/sdcard.h"
#include "registers.h"
#include "serial.h"
#include "startup.h"
#include "timer.h"
#include "wait.h"

/* `regulator.dcdc` of the board file: 0 for a module without the converter's coil, which would brown out. */
#ifndef POET_DCDC
#define POET_DCDC 1
#endif

const char poet_board_name[] = "nrf52840";
const bool poet_board_has_bootloader = false;

static uint32_t reset_causes;

static poet_sdcard card;

static void card_interrupt(void)
{
    if (card_spi_acknowledge()) {
        poet_sdcard_interrupt(&card);
    }
}

/* The one interrupt that is ever taken, behind the core's own entries of the vector table. */
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
    P1_OUTCLR = 1u << PIN_WINDOW;
    P1_DIRSET = 1u << PIN_WINDOW;
    reset_causes = POWER_RESETREAS;
    POWER_RESETREAS = reset_causes; /* or the next start would see them again */
    POWER_DCDCEN = POET_DCDC != 0 ? POWER_DCDCEN_DCDCEN : 0u;
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
        P1_OUTSET = 1u << PIN_WINDOW;
    } else {
        P1_OUTCLR = 1u << PIN_WINDOW;
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

void poet_board_enter_bootloader(void)
{
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&card, &card_spi, device);
}
