/* SPDX-License-Identifier: Apache-2.0 */
/* The nRF5340's application core, in the secure world: trims, errata, debug ports, supply, cache, clock, why it
 * started. The network core stays off. */
#include "chip.h"

#include "board_settings.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"

#if BOARD_CLOCK_HZ == 128000000
#define DIVIDER CLOCK_HFCLKCTRL_HCLK_Div1
#elif BOARD_CLOCK_HZ == 64000000
#define DIVIDER CLOCK_HFCLKCTRL_HCLK_Div2
#else
#error "clock_hz of the board's file: an nRF5340 has 64 or 128 MHz"
#endif

/* Registers without a name, as Nordic's SystemInit writes them (nrfx, mdk/system_nrf5340_application.c): errata 97 and
 * 160 of revision 1, the one that is sold. */
#define STARTUP_STATE REGISTER(0x50004A20u)
#define STARTUP_RETRY REGISTER(0x5000491Cu)
static const struct {
    uint32_t address, value;
} erratum_160[] = {
    {0x5000470Cu, 0x7Eu}, {0x5000493Cu, 0x7Eu}, {0x50002118u, 0x7Fu}, {0x50039E04u, 0u}, {0x50039E08u, 0u},
    {0x50101110u, 0u},    {0x50002124u, 0u},    {0x5000212Cu, 0u},    {0x502012A0u, 0u},
};

static void apply_trims(void)
{
    for (uint32_t i = 0u; i < FICR_TRIMCNF_COUNT && FICR_TRIMCNF_ADDR(i) != 0xFFFFFFFFu; i++) {
        REGISTER(FICR_TRIMCNF_ADDR(i)) = FICR_TRIMCNF_DATA(i);
    }
}

void startup_first(void)
{
    if (STARTUP_STATE == 0u) {
        STARTUP_STATE = 0xDu;
        STARTUP_RETRY = 1u;
        STARTUP_RETRY = 0u;
    }
    apply_trims();
    for (uint32_t i = 0u; i < sizeof erratum_160 / sizeof erratum_160[0]; i++) {
        REGISTER(erratum_160[i].address) = erratum_160[i].value;
    }
    /* Every reset locks the debug ports until the firmware opens them. UICR says whether it may. */
    CTRLAP_APPROTECT_DISABLE = UICR_APPROTECT;
    CTRLAP_SECUREAPPROTECT_DISABLE = UICR_SECUREAPPROTECT;
}

void chip_init(void)
{
    const uint32_t converter = BOARD_DCDC != 0 ? REGULATORS_VREGMAIN_DCDCEN_DCDCEN : 0u;

    REGULATORS_VREGMAIN_DCDCEN = converter;
    REGULATORS_VREGRADIO_DCDCEN = converter;
    CACHE_ENABLE = CACHE_ENABLE_ENABLE;
    CLOCK_HFCLKCTRL = DIVIDER;
}

uint32_t chip_take_reset_causes(void)
{
    const uint32_t causes = RESET_RESETREAS;

    RESET_RESETREAS = causes;
    return causes;
}

const char *chip_cause(uint32_t causes)
{
    if ((causes & RESET_RESETREAS_LOCKUP) != 0u) {
        return "lockup";
    }
    if ((causes & RESET_RESETREAS_DOG0) != 0u) {
        return "watchdog";
    }
    if ((causes & RESET_RESETREAS_SREQ) != 0u) {
        return "request";
    }
    return (causes & RESET_RESETREAS_RESETPIN) != 0u ? "pin" : "power"; /* no bit: power came, or browned out */
}

bool chip_has_converter_on(void)
{
    return (REGULATORS_VREGMAIN_DCDCEN & REGULATORS_VREGMAIN_DCDCEN_DCDCEN) != 0u;
}
