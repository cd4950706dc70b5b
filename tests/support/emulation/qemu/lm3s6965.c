/* SPDX-License-Identifier: Apache-2.0 */
/* Board functions for QEMU's lm3s6965evb, so that others' emulation of a CPU, a serial port and an SD card runs the
 * firmware too. Texas Instruments' LM3S6965 data sheet: PL011 UART (chapter 12), PL022 SPI (13), GPIO (8), SysTick (3).
 */
#include <stddef.h>

#include "core.h"
#include "failure.h"
#include "poet/board.h"
#include "poet/sdcard.h"

#define REG(address) (*(volatile uint32_t *)(address))

#define UART0_DR REG(0x4000C000u)
#define UART0_FR REG(0x4000C018u)
#define UART0_FR_BUSY (1u << 3)
#define UART0_FR_RXFE (1u << 4)
#define UART0_FR_TXFF (1u << 5)
#define UART0_IBRD REG(0x4000C024u)
#define UART0_LCRH REG(0x4000C02Cu)
#define UART0_CTL REG(0x4000C030u)

#define SSI0_CR0 REG(0x40008000u)
#define SSI0_CR1 REG(0x40008004u)
#define SSI0_DR REG(0x40008008u)
#define SSI0_SR REG(0x4000800Cu)
#define SSI0_SR_RNE (1u << 2)
#define SSI0_CPSR REG(0x40008010u)

#define GPIOD_PD0 REG(0x40007004u)
#define GPIOD_DIR REG(0x40007400u)
#define GPIOD_DEN REG(0x4000751Cu)
#define SYSCTL_RCGC1 REG(0x400FE104u)
#define SYSCTL_RCGC2 REG(0x400FE108u)

#define SYST_CSR REG(0xE000E010u)
#define SYST_RVR REG(0xE000E014u)
#define SYST_CVR REG(0xE000E018u)
#define SYST_MAX 0xFFFFFFu

const char poet_board_name[] = "lm3s6965evb";
#define TICKS_HZ 12500000u
const uint32_t poet_board_ticks_hz = TICKS_HZ;

static uint32_t ticks;
static uint32_t last;

/* A 24-bit counter that counts down; asked more often than it wraps, it gives a longer one. */
uint32_t poet_board_ticks(void)
{
    const uint32_t now = SYST_CVR & SYST_MAX;

    ticks += (last - now) & SYST_MAX;
    last = now;
    return ticks;
}

static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    (void)hz;
}

static void select_card(void *context, bool selected)
{
    (void)context;
    GPIOD_PD0 = selected ? 0u : 1u;
}

static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    for (uint32_t i = 0u; i < bytes; i++) {
        SSI0_DR = send != NULL ? send[i] : 0xFFu;
        while ((SSI0_SR & SSI0_SR_RNE) == 0u) {
        }
        const uint8_t byte = (uint8_t)SSI0_DR;
        if (receive != NULL) {
            receive[i] = byte;
        }
    }
}

static const poet_spi spi = {.fastest_hz = 6000000u,
                             .set_speed = set_speed,
                             .select = select_card,
                             .transfer = transfer,
                             .ticks = poet_board_ticks,
                             .ticks_hz = TICKS_HZ};
static poet_sdcard card;

void poet_board_init(void)
{
    SYSCTL_RCGC1 = 1u << 0 | 1u << 4;
    SYSCTL_RCGC2 = 1u << 0 | 1u << 3;
    SYST_RVR = SYST_MAX;
    SYST_CVR = 0u;
    SYST_CSR = 5u;
    last = SYST_CVR & SYST_MAX;
    UART0_CTL = 0u;
    UART0_IBRD = 6u;
    UART0_LCRH = 0x70u; /* 8 bits, FIFOs */
    UART0_CTL = 0x301u;
    GPIOD_DIR = 1u;
    GPIOD_DEN = 1u;
    GPIOD_PD0 = 1u;
    SSI0_CR1 = 0u;
    SSI0_CPSR = 2u;
    SSI0_CR0 = 7u; /* 8 bits, mode 0 */
    SSI0_CR1 = 2u;
}

int poet_board_getchar(void)
{
    return (UART0_FR & UART0_FR_RXFE) != 0u ? -1 : (int)(UART0_DR & 0xFFu);
}

void poet_board_putchar(char byte)
{
    while ((UART0_FR & UART0_FR_TXFF) != 0u) {
    }
    UART0_DR = (uint8_t)byte;
}

void poet_board_flush(void)
{
    while ((UART0_FR & UART0_FR_BUSY) != 0u) {
    }
}

void poet_board_window(bool inside)
{
    (void)inside;
}

void poet_board_idle(uint32_t duration)
{
    const uint32_t start = poet_board_ticks();

    while (poet_board_ticks() - start < duration) {
    }
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&card, &spi, device);
}

uint32_t poet_board_boot_id(void)
{
    return 1u;
}

const bool poet_board_has_bootloader = false;

void poet_board_start(poet_start *start)
{
    *start = (poet_start){0};
    failure_report(start);
}

void poet_board_enter_bootloader(void)
{
}
