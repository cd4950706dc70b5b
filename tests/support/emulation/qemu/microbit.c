/* SPDX-License-Identifier: Apache-2.0 */
/* The nRF52840's UART and timer drivers on the nRF51 of QEMU's micro:bit: echoes a line, then says how many ticks
 * two waits of 16,000 ticks took, one spent asking the counter, one spent asleep.
 */
#include "poet/board.h"
#include "serial.h"
#include "timer.h"

#define WAIT_TICKS 16000u

int main(void);

/* What a wait that fails would blink on. */
void poet_board_window(bool inside)
{
    (void)inside;
}

static void say(uint32_t number)
{
    for (int shift = 28; shift >= 0; shift -= 4) {
        poet_board_putchar("0123456789abcdef"[(number >> shift) & 0xFu]);
    }
    poet_board_putchar('\n');
}

static void echo_line(void)
{
    int byte;

    do {
        byte = poet_board_getchar();
        if (byte >= 0) {
            poet_board_putchar((char)byte);
        }
    } while (byte != '\n');
    poet_board_flush();
}

static uint32_t busy_wait(void)
{
    const uint32_t start = poet_board_ticks();

    while (poet_board_ticks() - start < WAIT_TICKS) {
    }
    return poet_board_ticks() - start;
}

static uint32_t sleep_wait(void)
{
    const uint32_t start = poet_board_ticks();

    poet_board_idle(WAIT_TICKS);
    return poet_board_ticks() - start;
}

int main(void)
{
    timer_init();
    serial_init();
    for (;;) {
        echo_line();
        say(busy_wait());
        say(sleep_wait());
    }
}
