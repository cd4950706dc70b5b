/* SPDX-License-Identifier: Apache-2.0 */
/* What all boards have in common: their name, the window line, the card. */
#include "poet/board.h"

#include "board_settings.h"
#include "card_spi.h"
#include "gpio.h"
#include "poet/memory.h"
#include "poet/status.h"

const char poet_board_name[] = BOARD_NAME;
const bool poet_board_has_bootloader = BOARD_BOOTLOADER != 0;

poet_sdcard card_spi_card;

void poet_board_window(bool inside)
{
    if (inside) {
        gpio_set(PIN_WINDOW);
    } else {
        gpio_clear(PIN_WINDOW);
    }
}

void card_spi_select(void *context, bool selected)
{
    (void)context;
    if (selected) {
        gpio_clear(PIN_CARD_CS);
    } else {
        gpio_set(PIN_CARD_CS);
    }
}

__attribute__((weak)) bool card_spi_finds_a_card(void)
{
    return true; /* or the driver says that there is none */
}

static int open_card(poet_block_device *device)
{
    return card_spi_finds_a_card() ? poet_sdcard_init(&card_spi_card, &card_spi, device) : POET_E_ABSENT;
}

int poet_board_storage(poet_block_device *device)
{
#if BOARD_MEMORY_BYTES > 0
    static poet_block_device card;
    const int status = poet_memory_init((void *)BOARD_MEMORY_BEGIN, BOARD_MEMORY_BYTES, device);
    if (status == POET_OK && open_card(&card) == POET_OK) {
        device->lasting = &card;
    }
    return status;
#else
    return open_card(device);
#endif
}
