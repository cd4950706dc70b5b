/* SPDX-License-Identifier: Apache-2.0 */
/* SPI1 as master, mode 0, polled, at most 12.5 Mbit/s (RM0383, chapter 20). */
#include "card_spi.h"

#include <stddef.h>

#include "board_settings.h"
#include "clocks.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "timer.h"
#include "wait.h"

#define PA(pin) (pin)
#define PB(pin) (32u + (pin))
#if (PIN_CARD_SCK != PA(5u) && PIN_CARD_SCK != PB(3u)) || (PIN_CARD_MISO != PA(6u) && PIN_CARD_MISO != PB(4u)) || \
    (PIN_CARD_MOSI != PA(7u) && PIN_CARD_MOSI != PB(5u))
#error \
    "pins of the board's file: SPI1 of an STM32F411 is at PA05 or PB03 (SCK), PA06 or PB04 (MISO), PA07 or PB05 (MOSI)"
#endif

#define FUNCTION_SPI1 5u
#define FASTEST_HZ (BUS_HZ / 4u)
#define SLOWEST_DIVIDER 7u /* BR of 0 divides by 2, of 7 by 256 */
#define CONFIGURATION (SPI1_CR1_MSTR | SPI1_CR1_SSM | SPI1_CR1_SSI)

/* The divider may change while the bus rests and SPE is off (20.3.3). */
static void set_speed(void *context, uint32_t hz)
{
    uint32_t divider = 0u;

    (void)context;
    while (divider < SLOWEST_DIVIDER && (BUS_HZ / 2u) >> divider > hz) {
        divider++;
    }
    WAIT_UNTIL((SPI1_SR & SPI1_SR_BSY) == 0u, WAIT_CARD);
    SPI1_CR1 = CONFIGURATION | SPI1_CR1_BR(divider);
    SPI1_CR1 = CONFIGURATION | SPI1_CR1_BR(divider) | SPI1_CR1_SPE;
}

/* The next byte waits in the transmit buffer while one moves, so that the bus never stands still. */
static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    for (uint32_t sent = 0u, received = 0u; received < bytes;) {
        if (sent < bytes && sent - received < 2u) {
            WAIT_UNTIL((SPI1_SR & SPI1_SR_TXE) != 0u, WAIT_CARD);
            SPI1_DR = send != NULL ? send[sent] : 0xFFu;
            sent++;
            continue;
        }
        WAIT_UNTIL((SPI1_SR & SPI1_SR_RXNE) != 0u, WAIT_CARD);
        const uint8_t byte = (uint8_t)SPI1_DR;
        if (receive != NULL) {
            receive[received] = byte;
        }
        received++;
    }
}

const poet_spi card_spi = {
    .context = NULL,
    .fastest_hz = FASTEST_HZ,
    .set_speed = set_speed,
    .select = card_spi_select,
    .transfer = transfer,
    .ticks = poet_board_ticks,
    .ticks_hz = TIMER_HZ,
};

void card_spi_init(void)
{
    gpio_set(PIN_CARD_CS);
    gpio_configure(PIN_CARD_CS, GPIO_OUTPUT);
    gpio_pull_up(PIN_CARD_MISO);
    gpio_give(PIN_CARD_SCK, FUNCTION_SPI1);
    gpio_give(PIN_CARD_MISO, FUNCTION_SPI1);
    gpio_give(PIN_CARD_MOSI, FUNCTION_SPI1);
    RCC_APB2ENR |= RCC_APB2ENR_SPI1EN;
    set_speed(NULL, 0u);
}
