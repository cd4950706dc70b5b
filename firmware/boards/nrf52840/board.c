/* nRF52840: clocks, the window line, the boot number, the card. */
#include "card_spi.h"
#include "pins.h"
#include "poet/board.h"
#include "poet/sdcard.h"
#include "registers.h"
#include "serial.h"
#include "timer.h"

const char poet_board_name[] = "nrf52840";

static poet_sdcard card;

static void card_interrupt(void)
{
    if (card_spi_acknowledge()) {
        poet_sdcard_interrupt(&card);
    }
}

/* The one interrupt that is ever taken, behind the core's own entries of the vector table. */
typedef void (*vector)(void);
extern const vector nrf52840_interrupts[SPIM0_IRQ + 1u];
__attribute__((section(".vectors.interrupts"), used)) const vector nrf52840_interrupts[SPIM0_IRQ + 1u] = {
    [SPIM0_IRQ] = card_interrupt,
};

void poet_board_init(void)
{
    NVMC_ICACHECNF = NVMC_ICACHECNF_CACHEEN;
    CLOCK_EVENTS_HFCLKSTARTED = 0u;
    CLOCK_TASKS_HFCLKSTART = 1u;
    while (CLOCK_EVENTS_HFCLKSTARTED == 0u) {
    }
    P1_OUTCLR = 1u << PIN_WINDOW;
    P1_DIRSET = 1u << PIN_WINDOW;
    timer_init();
    serial_init();
    card_spi_init();
}

void poet_board_window(bool inside)
{
    if (inside) {
        P1_OUTSET = 1u << PIN_WINDOW;
    } else {
        P1_OUTCLR = 1u << PIN_WINDOW;
    }
}

uint32_t poet_board_boot_id(void)
{
    uint32_t id = 0u;

    RNG_TASKS_START = 1u;
    for (int byte = 0; byte < 4; byte++) {
        RNG_EVENTS_VALRDY = 0u;
        while (RNG_EVENTS_VALRDY == 0u) {
        }
        id = (id << 8) | (RNG_VALUE & 0xFFu);
    }
    RNG_TASKS_STOP = 1u;
    return id;
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&card, &card_spi, device);
}
