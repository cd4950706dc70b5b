/* MKR1000: the window line, the boot number, the card. */
#include "card_spi.h"
#include "clocks.h"
#include "pins.h"
#include "poet/board.h"
#include "poet/sdcard.h"
#include "registers.h"
#include "serial.h"
#include "timer.h"

const char poet_board_name[] = "mkr1000";

static poet_sdcard card;

void poet_board_init(void)
{
    clocks_init();
    /* The WiFi module draws on the same supply: off. */
    const uint32_t low = 1u << PIN_WINDOW | 1u << PIN_WIFI_RESET | 1u << PIN_WIFI_ENABLE;
    PORT_OUTCLR0 = low;
    PORT_DIRSET0 = low;
    timer_init();
    serial_init();
    card_spi_init();
}

void poet_board_window(bool inside)
{
    if (inside) {
        PORT_OUTSET0 = 1u << PIN_WINDOW;
    } else {
        PORT_OUTCLR0 = 1u << PIN_WINDOW;
    }
}

/* There is no random number generator. RAM wakes up with noise and keeps its content over a reset: a counter there
 * differs between resets, and a hash over what nothing has written yet differs between power-ups. */
uint32_t poet_board_boot_id(void)
{
    __attribute__((section(".noinit"))) static uint32_t boots;
    uint32_t bytes;
    const uint8_t *ram = poet_board_ram(&bytes);
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (uint32_t i = 0u; i < bytes; i++) {
        hash = (hash ^ ram[i]) * 16777619u;
    }
    boots++;
    return hash ^ (boots * 2654435761u);
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&card, &card_spi, device);
}
