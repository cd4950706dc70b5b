/* SPDX-License-Identifier: Apache-2.0 */
/* USART2 on PA2 and PA3, polled, 8N1 (RM0383, chapter 19). It holds one byte that has come, and one that comes. */
#include "serial.h"

#include "board_settings.h"
#include "clocks.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"
#include "wait.h"

#if PIN_SERIAL_TX != 2u || PIN_SERIAL_RX != 3u
#error "pins of the board's file: on an STM32F411 this driver sends on PA02 and receives on PA03"
#endif
#if BOARD_BAUD < 9600 || BOARD_BAUD > 3125000
#error "baud of the board's file: an STM32F411 can do 9,600 to 3,125,000 here"
#endif

#define FUNCTION_USART2 7u

static bool sending;

void serial_init(void)
{
    gpio_pull_up(PIN_SERIAL_RX);
    gpio_give(PIN_SERIAL_TX, FUNCTION_USART2);
    gpio_give(PIN_SERIAL_RX, FUNCTION_USART2);
    RCC_APB1ENR |= RCC_APB1ENR_USART2EN;
    USART2_BRR = (BUS_HZ + BOARD_BAUD / 2u) / BOARD_BAUD; /* sixteenths of 16 samples a bit */
    USART2_CR1 = USART2_CR1_UE | USART2_CR1_TE | USART2_CR1_RE;
    sending = false;
}

int poet_board_getchar(void)
{
    /* An overrun is cleared by this read of SR and the one of DR. */
    if ((USART2_SR & USART2_SR_RXNE) == 0u) {
        startup_check_stack();
        return -1;
    }
    return (int)(USART2_DR & 0xFFu);
}

void poet_board_putchar(char byte)
{
    WAIT_UNTIL((USART2_SR & USART2_SR_TXE) != 0u, WAIT_SERIAL);
    USART2_DR = (uint8_t)byte;
    sending = true;
}

void poet_board_flush(void)
{
    if (sending) {
        WAIT_UNTIL((USART2_SR & USART2_SR_TC) != 0u, WAIT_SERIAL);
        sending = false;
    }
}
