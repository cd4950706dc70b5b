/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM1 as SPI master, mode 0, polled, at most 12 Mbit/s (data sheet chapter 27). */
#include "card_spi.h"

#include <stddef.h>

#include "board_settings.h"
#include "clocks.h"
#include "gpio.h"
#include "poet/board.h"
#include "registers.h"
#include "timer.h"
#include "wait.h"

#define FASTEST_HZ 12000000u

/* PA16, PA17 and PA19 are the pads of SERCOM1 that this driver's DOPO 0 and DIPO 3 name; the chip select may be any. */
#if PIN_CARD_MOSI != 16u || PIN_CARD_SCK != 17u || PIN_CARD_MISO != 19u
#error "pins of the board's file: on a SAM D21 this driver has the card at PA16 (MOSI), PA17 (SCK) and PA19 (MISO)"
#endif

/* By hand: about 200 kHz. A card may take two seconds to start. */
#define HALF_BIT_LOOPS 24u
#define WAKE_UP_BYTES 10u
#define ANSWER_BYTES 16u
#define LONGEST_START_TICKS (2u * poet_board_ticks_hz)
#define PAUSE_TICKS (poet_board_ticks_hz / 20u)

static void synchronise(void)
{
    WAIT_UNTIL(SERCOM1_SPI_SYNCBUSY == 0u, WAIT_CARD);
}

/* BAUD can be written while the SERCOM is disabled alone (27.6.2.1). */
static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    SERCOM1_SPI_CTRLA &= ~SERCOM1_SPI_CTRLA_ENABLE;
    synchronise();
    SERCOM1_SPI_BAUD = (uint8_t)((CORE_HZ + 2u * hz - 1u) / (2u * hz) - 1u);
    SERCOM1_SPI_CTRLA |= SERCOM1_SPI_CTRLA_ENABLE;
    synchronise();
}

static void wait_for(uint32_t flag)
{
    WAIT_UNTIL((SERCOM1_SPI_INTFLAG & flag) != 0u, WAIT_CARD);
}

/* The next byte waits in the transmit buffer while one moves, so that the bus never stands still; the receive buffer
 * has room for both (27.6.2.6). */
static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    static const uint8_t idle = 0xFFu;
    uint8_t dropped;
    const uint8_t *from = send != NULL ? send : &idle;
    uint8_t *to = receive != NULL ? receive : &dropped;
    const uint32_t send_step = send != NULL ? 1u : 0u;
    const uint32_t receive_step = receive != NULL ? 1u : 0u;

    (void)context;
    if (bytes == 0u) {
        return;
    }
    SERCOM1_SPI_DATA = *from;
    for (uint32_t left = bytes - 1u; left > 0u; left--) {
        from += send_step;
        wait_for(SERCOM1_SPI_INTFLAG_DRE);
        SERCOM1_SPI_DATA = *from;
        wait_for(SERCOM1_SPI_INTFLAG_RXC);
        *to = (uint8_t)SERCOM1_SPI_DATA;
        to += receive_step;
    }
    wait_for(SERCOM1_SPI_INTFLAG_RXC);
    *to = (uint8_t)SERCOM1_SPI_DATA;
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

static void give_pins_to_sercom(void)
{
    PORT_PINCFG0_(PIN_CARD_MOSI) = PORT_PINCFG0_PMUXEN;
    PORT_PINCFG0_(PIN_CARD_SCK) = PORT_PINCFG0_PMUXEN;
    PORT_PINCFG0_(PIN_CARD_MISO) = PORT_PINCFG0_PMUXEN | PORT_PINCFG0_INEN; /* a pull-up would do nothing here */
}

static void take_pins_from_sercom(void)
{
    PORT_OUTCLR0 = 1u << PIN_CARD_SCK;
    PORT_OUTSET0 = 1u << PIN_CARD_MISO; /* its pull goes up */
    PORT_PINCFG0_(PIN_CARD_MOSI) = 0u;
    PORT_PINCFG0_(PIN_CARD_SCK) = 0u;
    PORT_PINCFG0_(PIN_CARD_MISO) = PORT_PINCFG0_INEN | PORT_PINCFG0_PULLEN;
}

static void half_bit(void)
{
    for (uint32_t left = HALF_BIT_LOOPS; left > 0u; left--) {
        __asm__ volatile("nop");
    }
}

static uint8_t move_by_hand(uint8_t send)
{
    uint8_t received = 0u;

    for (uint32_t bit = 0x80u; bit != 0u; bit >>= 1) {
        if ((send & bit) != 0u) {
            PORT_OUTSET0 = 1u << PIN_CARD_MOSI;
        } else {
            PORT_OUTCLR0 = 1u << PIN_CARD_MOSI;
        }
        half_bit();
        PORT_OUTSET0 = 1u << PIN_CARD_SCK;
        received = (uint8_t)(received << 1 | ((PORT_IN0 >> PIN_CARD_MISO) & 1u));
        half_bit();
        PORT_OUTCLR0 = 1u << PIN_CARD_SCK;
    }
    return received;
}

/* CMD0, which a card always answers, or whatever it is still sending from before: any zero bit will do. */
static bool asked_once(void)
{
    static const uint8_t go_idle[] = {0x40u, 0u, 0u, 0u, 0u, 0x95u};
    bool answered = false;

    for (uint32_t i = 0u; i < WAKE_UP_BYTES; i++) {
        (void)move_by_hand(0xFFu);
    }
    card_spi_select(NULL, true);
    for (uint32_t i = 0u; i < sizeof go_idle; i++) {
        (void)move_by_hand(go_idle[i]);
    }
    for (uint32_t i = 0u; i < ANSWER_BYTES && !answered; i++) {
        answered = move_by_hand(0xFFu) != 0xFFu;
    }
    card_spi_select(NULL, false);
    (void)move_by_hand(0xFFu);
    return answered;
}

/* Asked by hand, since only a pin that is no peripheral's can have its pull-up: without one, an empty slot may say
 * anything. */
bool card_spi_finds_a_card(void)
{
    bool answered;
    const uint32_t begin = poet_board_ticks();

    take_pins_from_sercom();
    while (!(answered = asked_once()) && poet_board_ticks() - begin < LONGEST_START_TICKS) {
        poet_board_idle(PAUSE_TICKS);
    }
    give_pins_to_sercom();
    return answered;
}

void card_spi_init(void)
{
    gpio_set(PIN_CARD_CS);
    gpio_drive(PIN_CARD_CS);
    PORT_DIRSET0 = 1u << PIN_CARD_MOSI | 1u << PIN_CARD_SCK;                  /* while they are no peripheral's */
    PORT_PMUX0_(PIN_CARD_MOSI / 2u) = PORT_FUNCTION_C | PORT_FUNCTION_C << 4; /* PA16 and PA17 share it */
    PORT_PMUX0_(PIN_CARD_MISO / 2u) = PORT_FUNCTION_C << 4;
    give_pins_to_sercom();
    PM_APBCMASK |= PM_APBCMASK_SERCOM1;
    clocks_feed(GCLK_ID_SERCOM1_CORE);
    SERCOM1_SPI_CTRLA = SERCOM1_SPI_CTRLA_SWRST;
    synchronise();
    SERCOM1_SPI_CTRLA =
        SERCOM1_SPI_CTRLA_MODE(SERCOM_MODE_SPI_MASTER) | SERCOM1_SPI_CTRLA_DOPO(0u) | SERCOM1_SPI_CTRLA_DIPO(3u);
    SERCOM1_SPI_CTRLB = SERCOM1_SPI_CTRLB_RXEN;
    synchronise();
    set_speed(NULL, 250000u);
}
