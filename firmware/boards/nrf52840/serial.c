/* SPDX-License-Identifier: Apache-2.0 */
/* UART0 without EasyDMA, polled, 8N1 (Product Specification 6.33). Its receive buffer holds six bytes: the
 * host is quiet while the firmware works. */
#include "serial.h"

#include "board_settings.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"
#include "wait.h"

#if BOARD_BAUD == 1000000
#define BAUDRATE UART0_BAUDRATE_1M
#elif BOARD_BAUD == 115200
#define BAUDRATE UART0_BAUDRATE_115200
#else
#error "baud of the board's file: this driver knows 1,000,000 and 115,200"
#endif

static bool sending;

void serial_init(void)
{
    gpio_set(PIN_SERIAL_TX);
    gpio_configure(PIN_SERIAL_TX, P0_PIN_CNF_DIR | P0_PIN_CNF_INPUT);
    gpio_configure(PIN_SERIAL_RX, P0_PIN_CNF_PULL(PULL_UP));
    UART0_PSEL_TXD = PIN_SERIAL_TX;
    UART0_PSEL_RXD = PIN_SERIAL_RX;
    UART0_BAUDRATE = BAUDRATE;
    UART0_CONFIG = 0u;
    UART0_ENABLE = UART0_ENABLE_ENABLED;
    UART0_EVENTS_RXDRDY = 0u;
    UART0_EVENTS_TXDRDY = 0u;
    UART0_TASKS_STARTRX = 1u;
    UART0_TASKS_STARTTX = 1u;
    sending = false;
}

int poet_board_getchar(void)
{
    if (UART0_EVENTS_RXDRDY == 0u) {
        startup_check_stack();
        return -1;
    }
    /* Cleared first: reading RXD raises the event again if another byte is waiting. */
    UART0_EVENTS_RXDRDY = 0u;
    return (int)(UART0_RXD & 0xFFu);
}

void poet_board_flush(void)
{
    if (sending) {
        WAIT_UNTIL(UART0_EVENTS_TXDRDY != 0u, WAIT_SERIAL);
        UART0_EVENTS_TXDRDY = 0u;
        sending = false;
    }
}

void poet_board_putchar(char byte)
{
    poet_board_flush();
    UART0_TXD = (uint8_t)byte;
    sending = true;
}
