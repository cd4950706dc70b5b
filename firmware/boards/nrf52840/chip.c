/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840: debug port, supply, instruction cache, why it started, the boot number. */
#include "chip.h"

#include "board_settings.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"
#include "wait.h"

#if BOARD_CLOCK_HZ != 64000000
#error "clock_hz of the board's file: an nRF52840 has 64 MHz and no other"
#endif

/* From build code F0 on, every reset locks the debug port until the firmware opens it. UICR says whether it may, as in
 * Nordic's nrf52_handle_approtect. */
void startup_first(void)
{
    if (FICR_PART_CODE == PART_CODE_NRF52840 && FICR_REVISION_CODE >= REVISION_CODE_F0) {
        APPROTECT_DISABLE = UICR_APPROTECT;
    }
}

void chip_init(void)
{
    POWER_DCDCEN = BOARD_DCDC != 0 ? POWER_DCDCEN_DCDCEN : 0u;
    NVMC_ICACHECNF = NVMC_ICACHECNF_CACHEEN;
}

uint32_t chip_take_reset_causes(void)
{
    const uint32_t causes = POWER_RESETREAS;

    POWER_RESETREAS = causes;
    return causes;
}

const char *chip_cause(uint32_t causes)
{
    if ((causes & POWER_RESETREAS_LOCKUP) != 0u) {
        return "lockup";
    }
    if ((causes & POWER_RESETREAS_DOG) != 0u) {
        return "watchdog";
    }
    if ((causes & POWER_RESETREAS_SREQ) != 0u) {
        return "request";
    }
    return (causes & POWER_RESETREAS_RESETPIN) != 0u ? "pin" : "power"; /* no bit: power came, or browned out */
}

bool chip_has_converter_on(void)
{
    return (POWER_DCDCEN & POWER_DCDCEN_DCDCEN) != 0u;
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
