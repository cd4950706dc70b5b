/* SERCOM1 as SPI master, mode 0, polled, at most 12 Mbit/s (data sheet chapter 27). */
#include "card_spi.h"

#include <stddef.h>

#include "clocks.h"
#include "pins.h"
#include "registers.h"
#include "wait.h"

#define FASTEST_HZ 12000000u

static void settle(void)
{
    WAIT_UNTIL(SERCOM1_SPI_SYNCBUSY == 0u, WAIT_CARD);
}

/* BAUD can be written while the SERCOM is disabled alone (27.6.2.1). */
static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    SERCOM1_SPI_CTRLA &= ~SERCOM1_SPI_CTRLA_ENABLE;
    settle();
    SERCOM1_SPI_BAUD = (uint8_t)((CORE_HZ + 2u * hz - 1u) / (2u * hz) - 1u);
    SERCOM1_SPI_CTRLA |= SERCOM1_SPI_CTRLA_ENABLE;
    settle();
}

static void select_card(void *context, bool selected)
{
    (void)context;
    if (selected) {
        PORT_OUTCLR1 = 1u << PIN_CARD_CS;
    } else {
        PORT_OUTSET1 = 1u << PIN_CARD_CS;
    }
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
    .select = select_card,
    .transfer = transfer,
};

void card_spi_init(void)
{
    PORT_OUTSET1 = 1u << PIN_CARD_CS;
    PORT_DIRSET1 = 1u << PIN_CARD_CS;
    PORT_PMUX0_(PIN_CARD_MOSI / 2u) = PORT_FUNCTION_C | PORT_FUNCTION_C << 4; /* PA16 and PA17 share it */
    PORT_PMUX0_(PIN_CARD_MISO / 2u) = PORT_FUNCTION_C << 4;
    PORT_PINCFG0_(PIN_CARD_MOSI) = PORT_PINCFG0_PMUXEN;
    PORT_PINCFG0_(PIN_CARD_SCK) = PORT_PINCFG0_PMUXEN;
    PORT_OUTSET0 = 1u << PIN_CARD_MISO; /* pull-up */
    PORT_PINCFG0_(PIN_CARD_MISO) = PORT_PINCFG0_PMUXEN | PORT_PINCFG0_INEN | PORT_PINCFG0_PULLEN;
    PM_APBCMASK |= PM_APBCMASK_SERCOM1;
    clocks_feed(GCLK_ID_SERCOM1_CORE);
    SERCOM1_SPI_CTRLA = SERCOM1_SPI_CTRLA_SWRST;
    settle();
    SERCOM1_SPI_CTRLA = SERCOM1_SPI_CTRLA_MODE(SERCOM_MODE_SPI_MASTER) | SERCOM1_SPI_CTRLA_DOPO(0u) |
                        SERCOM1_SPI_CTRLA_DIPO(3u);
    SERCOM1_SPI_CTRLB = SERCOM1_SPI_CTRLB_RXEN;
    settle();
    set_speed(NULL, 250000u);
}
