/* SPIM2 with EasyDMA (Product Specification 6.25), mode 0, at most 8 Mbit/s. SPIM2 and not the 32 Mbit/s SPIM3: erratum
 * 198 of that one can corrupt what it sends. */
#include "card_spi.h"

#include <string.h>

#include "pins.h"
#include "registers.h"

#define RAM_BASE 0x20000000u
#define BOUNCE_BYTES 64u
#define LONGEST_TRANSFER 0xFFFFu /* RXD.MAXCNT has 16 bits */

void card_spi_init(void)
{
    const uint32_t output = P1_PIN_CNF_DIR | P1_PIN_CNF_INPUT | P1_PIN_CNF_DRIVE(DRIVE_H0H1);

    P1_OUTSET = 1u << PIN_CARD_CS | 1u << PIN_CARD_MOSI;
    P1_OUTCLR = 1u << PIN_CARD_SCK;
    P1_PIN_CNF(PIN_CARD_CS) = output;
    P1_PIN_CNF(PIN_CARD_MOSI) = output;
    P1_PIN_CNF(PIN_CARD_SCK) = output;
    P1_PIN_CNF(PIN_CARD_MISO) = P1_PIN_CNF_PULL(PULL_UP);
    SPIM2_PSEL_SCK = PORT1 + PIN_CARD_SCK;
    SPIM2_PSEL_MOSI = PORT1 + PIN_CARD_MOSI;
    SPIM2_PSEL_MISO = PORT1 + PIN_CARD_MISO;
    SPIM2_CONFIG = 0u;
    SPIM2_ORC = 0xFFu;
    SPIM2_FREQUENCY = SPIM2_FREQUENCY_K250;
    SPIM2_ENABLE = SPIM2_ENABLE_ENABLED;
}

static void set_speed(void *context, uint32_t hz)
{
    (void)context;
    SPIM2_FREQUENCY = hz >= 8000000u ? SPIM2_FREQUENCY_M8 : SPIM2_FREQUENCY_K250;
}

static void select_card(void *context, bool selected)
{
    (void)context;
    if (selected) {
        P1_OUTCLR = 1u << PIN_CARD_CS;
    } else {
        P1_OUTSET = 1u << PIN_CARD_CS;
    }
}

static void move(const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    SPIM2_TXD_PTR = (uint32_t)(uintptr_t)send;
    SPIM2_TXD_MAXCNT = send != NULL ? bytes : 0u;
    SPIM2_RXD_PTR = (uint32_t)(uintptr_t)receive;
    SPIM2_RXD_MAXCNT = receive != NULL ? bytes : 0u;
    SPIM2_EVENTS_END = 0u;
    __asm__ volatile("dmb" ::: "memory"); /* buffers are in RAM before EasyDMA reads them */
    SPIM2_TASKS_START = 1u;
    while (SPIM2_EVENTS_END == 0u) {
    }
    __asm__ volatile("dmb" ::: "memory");
}

/* EasyDMA reaches RAM alone; what is sent from flash goes through the stack. */
static void send_from_flash(const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    uint8_t bounce[BOUNCE_BYTES];

    for (uint32_t done = 0u; done < bytes; done += BOUNCE_BYTES) {
        const uint32_t part = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        memcpy(bounce, send + done, part);
        move(bounce, receive != NULL ? receive + done : NULL, part);
    }
}

static void transfer(void *context, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    (void)context;
    if (send != NULL && (uintptr_t)send < RAM_BASE) {
        send_from_flash(send, receive, bytes);
        return;
    }
    for (uint32_t done = 0u; done < bytes; done += LONGEST_TRANSFER) {
        const uint32_t part = bytes - done < LONGEST_TRANSFER ? bytes - done : LONGEST_TRANSFER;
        move(send != NULL ? send + done : NULL, receive != NULL ? receive + done : NULL, part);
    }
}


const poet_spi card_spi = {
    .context = NULL,
    .fastest_hz = 8000000u,
    .set_speed = set_speed,
    .select = select_card,
    .transfer = transfer,
};
