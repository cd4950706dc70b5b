/* SPDX-License-Identifier: Apache-2.0 */
/* SPIM0 with EasyDMA (Product Specification 6.25), mode 0, at most 8 Mbit/s, polled or ending in an interrupt. Not the
 * 32 Mbit/s SPIM3: erratum 198 of that one can corrupt what it sends. */
#include "card_spi.h"

#include <string.h>

#include "board_settings.h"
#include "core.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "timer.h"
#include "wait.h"

#define RAM_PART 0x20u               /* the highest byte of its addresses */
#define LONGEST_SLEEP_TICKS 4000000u /* 0.25 s: no single transfer takes a tenth of it */
#define LONGEST_TRANSFER 512u        /* 16 ms at 250 kHz: WAIT_POLLS is longer */

void card_spi_init(void)
{
    /* Standard drive: at 8 MHz the high one makes jumper wires ring. */
    const uint32_t output = P1_PIN_CNF_DIR | P1_PIN_CNF_INPUT;

    gpio_set(PIN_CARD_CS);
    gpio_set(PIN_CARD_MOSI);
    gpio_clear(PIN_CARD_SCK);
    gpio_configure(PIN_CARD_CS, output);
    gpio_configure(PIN_CARD_MOSI, output);
    gpio_configure(PIN_CARD_SCK, P1_PIN_CNF_DIR); /* SPIM gets its own clock through the input buffer */
    gpio_configure(PIN_CARD_MISO, P1_PIN_CNF_PULL(PULL_UP));
    SPIM0_PSEL_SCK = PIN_CARD_SCK;
    SPIM0_PSEL_MOSI = PIN_CARD_MOSI;
    SPIM0_PSEL_MISO = PIN_CARD_MISO;
    SPIM0_CONFIG = 0u;
    SPIM0_ORC = 0xFFu;
    SPIM0_FREQUENCY = SPIM0_FREQUENCY_K250;
    SPIM0_ENABLE = SPIM0_ENABLE_ENABLED;
    NVIC_ISER0 = 1u << SPIM0_IRQ;
}

bool card_spi_acknowledge(void)
{
    const bool ended = SPIM0_EVENTS_END != 0u;

    SPIM0_EVENTS_END = 0u;
    SPIM0_INTENCLR = SPIM0_INTENSET_END;
    __asm__ volatile("dsb" ::: "memory"); /* the event is gone before the interrupt could be raised by it again */
    return ended;
}

static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    SPIM0_FREQUENCY = hz >= 8000000u   ? SPIM0_FREQUENCY_M8
                      : hz >= 4000000u ? SPIM0_FREQUENCY_M4
                      : hz >= 1000000u ? SPIM0_FREQUENCY_M1
                                       : SPIM0_FREQUENCY_K250;
}

/* Hands a transfer to EasyDMA. */
static void begin(const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    SPIM0_TXD_PTR = (uint32_t)(uintptr_t)send;
    SPIM0_TXD_MAXCNT = send != NULL ? bytes : 0u;
    SPIM0_RXD_PTR = (uint32_t)(uintptr_t)receive;
    SPIM0_RXD_MAXCNT = receive != NULL ? bytes : 0u;
    SPIM0_EVENTS_END = 0u;
    __asm__ volatile("dmb" ::: "memory"); /* buffers are in RAM before EasyDMA reads them */
    SPIM0_TASKS_START = 1u;
}

static void move(const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    SPIM0_INTENCLR = SPIM0_INTENSET_END;
    begin(send, receive, bytes);
    WAIT_UNTIL(SPIM0_EVENTS_END != 0u, WAIT_CARD);
    SPIM0_EVENTS_END = 0u;
    __asm__ volatile("dmb" ::: "memory");
}

/* EasyDMA reaches RAM alone; what is sent from flash or slow memory goes through here. */
static uint8_t staging[POET_BLOCK_BYTES];

static void send_from_elsewhere(const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    for (uint32_t done = 0u; done < bytes; done += sizeof staging) {
        const uint32_t part = bytes - done < sizeof staging ? bytes - done : sizeof staging;
        memcpy(staging, send + done, part);
        move(staging, receive != NULL ? receive + done : NULL, part);
    }
}

static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    if (send != NULL && (uintptr_t)send >> 24 != RAM_PART) {
        send_from_elsewhere(send, receive, bytes);
        return;
    }
    for (uint32_t done = 0u; done < bytes; done += LONGEST_TRANSFER) {
        const uint32_t part = bytes - done < LONGEST_TRANSFER ? bytes - done : LONGEST_TRANSFER;
        move(send != NULL ? send + done : NULL, receive != NULL ? receive + done : NULL, part);
    }
}

/* At most 65,535 bytes (RXD.MAXCNT), from RAM: the driver starts no more than a block at once. */
static void start(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    if (send != NULL && (uintptr_t)send >> 24 != RAM_PART) {
        memcpy(staging, send, bytes);
        send = staging;
    }
    begin(send, receive, bytes);
    SPIM0_INTENSET = SPIM0_INTENSET_END;
}

static void sleep_while(void *context, const volatile uint8_t *busy)
{
    (void)context;
    timer_set_alarm(LONGEST_SLEEP_TICKS);
    core_sleep_while(busy, TIMER0_IRQ);
    if (timer_alarm_has_rung()) {
        wait_failed(WAIT_CARD);
    }
    timer_clear_alarm();
}

const poet_spi card_spi = {
    .context = NULL,
    .fastest_hz = 8000000u,
    .set_speed = set_speed,
    .select = card_spi_select,
    .transfer = transfer,
    .start = start,
    .sleep = sleep_while,
    .ticks = poet_board_ticks,
    .ticks_hz = TIMER_HZ,
};
