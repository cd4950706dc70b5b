/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM5 as USART, polled, 8N1 (data sheet chapter 26), on PB22 and PB23: the MKR1000's Serial1. */
#include "serial.h"

#include "board_settings.h"
#include "clocks.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"
#include "wait.h"

#if PIN_SERIAL_TX != 32u + 22u || PIN_SERIAL_RX != 32u + 23u
#error "pins of the board's file: on a SAM D21 this driver sends on PB22 and receives on PB23"
#endif
#define TX_PIN 22u
#define RX_PIN 23u

/* Asynchronous arithmetic mode, 16 samples a bit: 65536 * (1 - 16 * baud / clock) (26.6.2.3). */
#define BAUD_REGISTER (65536u - (uint32_t)((65536ull * 16u * BOARD_BAUD + CORE_HZ / 2u) / CORE_HZ))

static bool sending;

static void synchronise(void)
{
    WAIT_UNTIL(SERCOM5_USART_SYNCBUSY == 0u, WAIT_SERIAL);
}

void serial_init(void)
{
    PORT_PMUX1_(TX_PIN / 2u) = PORT_FUNCTION_D | PORT_FUNCTION_D << 4; /* PB22 and PB23 share it */
    PORT_PINCFG1_(TX_PIN) = PORT_PINCFG0_PMUXEN;
    /* No pull-up: it would do nothing behind the multiplexer. One of 10 to 50 kOhm belongs on the wire
     * (docs/boards.md); without it, noise may arrive where no adapter is, and lines without a valid checksum are
     * dropped. */
    PORT_PINCFG1_(RX_PIN) = PORT_PINCFG0_PMUXEN | PORT_PINCFG0_INEN;
    PM_APBCMASK |= PM_APBCMASK_SERCOM5;
    clocks_feed(GCLK_ID_SERCOM5_CORE);
    SERCOM5_USART_CTRLA = SERCOM5_USART_CTRLA_SWRST;
    synchronise();
    SERCOM5_USART_CTRLA = SERCOM5_USART_CTRLA_MODE(SERCOM_MODE_USART_INTERNAL) | SERCOM5_USART_CTRLA_DORD |
                          SERCOM5_USART_CTRLA_RXPO(3u) | SERCOM5_USART_CTRLA_TXPO(1u);
    SERCOM5_USART_BAUD = (uint16_t)BAUD_REGISTER;
    SERCOM5_USART_CTRLB = SERCOM5_USART_CTRLB_TXEN | SERCOM5_USART_CTRLB_RXEN;
    synchronise();
    SERCOM5_USART_CTRLA |= SERCOM5_USART_CTRLA_ENABLE;
    synchronise();
    sending = false;
}

int poet_board_getchar(void)
{
    if ((SERCOM5_USART_INTFLAG & SERCOM5_USART_INTFLAG_RXC) == 0u) {
        startup_check_stack();
        return -1;
    }
    return (int)(SERCOM5_USART_DATA & 0xFFu);
}

void poet_board_putchar(char byte)
{
    WAIT_UNTIL((SERCOM5_USART_INTFLAG & SERCOM5_USART_INTFLAG_DRE) != 0u, WAIT_SERIAL);
    SERCOM5_USART_DATA = (uint8_t)byte;
    sending = true;
}

void poet_board_flush(void)
{
    if (sending) {
        WAIT_UNTIL((SERCOM5_USART_INTFLAG & SERCOM5_USART_INTFLAG_TXC) != 0u, WAIT_SERIAL);
        sending = false;
    }
}
