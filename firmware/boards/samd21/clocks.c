/* SPDX-License-Identifier: Apache-2.0 */
/* 48 MHz from the DFLL, locked to the board's 32,768 Hz crystal (data sheet 17.6.7.1.2, "Closed-Loop Operation").
 * The bootloader may have left any clock configuration behind; all of it is set again. */
#include "clocks.h"

#include "registers.h"
#include "wait.h"

#define MAIN_GENERATOR 0u
#define CRYSTAL_GENERATOR 1u
#define CRYSTAL_HZ 32768u

static void gclk_synchronise(void)
{
    WAIT_UNTIL((GCLK_STATUS & GCLK_STATUS_SYNCBUSY) == 0u, WAIT_CLOCK);
}

static void wait_for(uint32_t ready, enum wait_for what)
{
    WAIT_UNTIL((SYSCTRL_PCLKSR & ready) == ready, what);
}

static void feed(uint32_t id, uint32_t generator)
{
    GCLK_CLKCTRL = (uint16_t)(GCLK_CLKCTRL_ID(id) | GCLK_CLKCTRL_GEN(generator) | GCLK_CLKCTRL_CLKEN);
    gclk_synchronise();
}

void clocks_feed(uint32_t id)
{
    feed(id, MAIN_GENERATOR);
}

static void start_crystal(void)
{
    const uint32_t setting = SYSCTRL_XOSC32K_STARTUP(6u) | SYSCTRL_XOSC32K_XTALEN | SYSCTRL_XOSC32K_EN32K;

    SYSCTRL_XOSC32K = (uint16_t)setting;
    SYSCTRL_XOSC32K = (uint16_t)(setting | SYSCTRL_XOSC32K_ENABLE); /* in a write of its own (17.6.3) */
    wait_for(SYSCTRL_PCLKSR_XOSC32KRDY, WAIT_CRYSTAL);
}

static void start_dfll(void)
{
    /* Errata reference 9905: leave on-demand mode before any other register of the DFLL is written. */
    SYSCTRL_DFLLCTRL = SYSCTRL_DFLLCTRL_ENABLE;
    wait_for(SYSCTRL_PCLKSR_DFLLRDY, WAIT_CLOCK);
    SYSCTRL_DFLLMUL = SYSCTRL_DFLLMUL_CSTEP(31u) | SYSCTRL_DFLLMUL_FSTEP(511u) |
                      SYSCTRL_DFLLMUL_MUL((CORE_HZ + CRYSTAL_HZ / 2u) / CRYSTAL_HZ);
    wait_for(SYSCTRL_PCLKSR_DFLLRDY, WAIT_CLOCK);
    SYSCTRL_DFLLCTRL = SYSCTRL_DFLLCTRL_ENABLE | SYSCTRL_DFLLCTRL_MODE | SYSCTRL_DFLLCTRL_QLDIS;
    wait_for(SYSCTRL_PCLKSR_DFLLRDY | SYSCTRL_PCLKSR_DFLLLCKC | SYSCTRL_PCLKSR_DFLLLCKF, WAIT_CLOCK);
}

void clocks_init(void)
{
    /* One wait state above 24 MHz (22.8.2). MANW, errata reference 13134: a stray store must not write flash. */
    NVMCTRL_CTRLB = NVMCTRL_CTRLB_RWS(1u) | NVMCTRL_CTRLB_MANW;
    /* The core goes back to the internal 1 MHz, which needs no crystal: waits have a known length from here on. */
    SYSCTRL_OSC8M |= SYSCTRL_OSC8M_PRESC(OSC8M_DIV8);
    GCLK_CTRL = GCLK_CTRL_SWRST;
    WAIT_UNTIL((GCLK_CTRL & GCLK_CTRL_SWRST) == 0u, WAIT_CLOCK);
    gclk_synchronise();
    start_crystal();
    GCLK_GENCTRL = GCLK_GENCTRL_ID(CRYSTAL_GENERATOR) | GCLK_GENCTRL_SRC(GCLK_SOURCE_XOSC32K) | GCLK_GENCTRL_GENEN;
    gclk_synchronise();
    feed(GCLK_ID_DFLL48, CRYSTAL_GENERATOR);
    start_dfll();
    GCLK_GENCTRL =
        GCLK_GENCTRL_ID(MAIN_GENERATOR) | GCLK_GENCTRL_SRC(GCLK_SOURCE_DFLL48M) | GCLK_GENCTRL_GENEN | GCLK_GENCTRL_IDC;
    gclk_synchronise();
}
