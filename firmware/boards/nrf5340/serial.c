/* SPDX-License-Identifier: Apache-2.0 */
/* UARTE1, polled, 8N1, a byte at a time. While no buffer waits, bytes that come stay in its FIFO of four: the host is
 * quiet while the firmware works. */
#include "serial.h"

#include "board_settings.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "startup.h"
#include "wait.h"

#if BOARD_BAUD == 1000000
#define BAUDRATE UARTE1_BAUDRATE_1M
#elif BOARD_BAUD == 115200
#define BAUDRATE UARTE1_BAUDRATE_115200
#else
#error "baud of the board's file: this driver knows 1,000,000 and 115,200"
#endif

static volatile uint8_t received, sent;
static bool sending;

void serial_init(void)
{
    gpio_set(PIN_SERIAL_TX);
    gpio_configure(PIN_SERIAL_TX, P0_PIN_CNF_DIR | P0_PIN_CNF_INPUT);
    gpio_configure(PIN_SERIAL_RX, P0_PIN_CNF_PULL(PULL_UP));
    UARTE1_PSEL_TXD = PIN_SERIAL_TX;
    UARTE1_PSEL_RXD = PIN_SERIAL_RX;
    UARTE1_BAUDRATE = BAUDRATE;
    UARTE1_CONFIG = 0u;
    UARTE1_ENABLE = UARTE1_ENABLE_ENABLED;
    UARTE1_RXD_PTR = (uint32_t)(uintptr_t)&received;
    UARTE1_RXD_MAXCNT = 1u;
    UARTE1_TXD_PTR = (uint32_t)(uintptr_t)&sent;
    UARTE1_TXD_MAXCNT = 1u;
    UARTE1_EVENTS_ENDRX = 0u;
    UARTE1_EVENTS_ENDTX = 0u;
    UARTE1_TASKS_STARTRX = 1u;
    sending = false;
}

int poet_board_getchar(void)
{
    if (UARTE1_EVENTS_ENDRX == 0u) {
        startup_check_stack();
        return -1;
    }
    UARTE1_EVENTS_ENDRX = 0u;
    __asm__ volatile("dmb" ::: "memory"); /* the byte is in RAM before it is read */
    const int byte = received;
    UARTE1_TASKS_STARTRX = 1u;
    return byte;
}

void poet_board_flush(void)
{
    if (sending) {
        WAIT_UNTIL(UARTE1_EVENTS_ENDTX != 0u, WAIT_SERIAL);
        UARTE1_EVENTS_ENDTX = 0u;
        sending = false;
    }
}

void poet_board_putchar(char byte)
{
    poet_board_flush();
    sent = (uint8_t)byte;
    __asm__ volatile("dmb" ::: "memory"); /* the byte is in RAM before EasyDMA reads it */
    UARTE1_TASKS_STARTTX = 1u;
    sending = true;
}
