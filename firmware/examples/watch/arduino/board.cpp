// SPDX-License-Identifier: Apache-2.0
// What the watch asks of a board, by Arduino's Serial and SPI. The card is on the SPI pins, its chip select on D10.
#include <Arduino.h>
#include <SPI.h>
#include <poet.h>
#include <poet/board.h>
#include <poet/sdcard.h>

static constexpr int card_select = 10;
static poet_sdcard sdcard;
static uint32_t speed_hz;

static void set_speed(void *, uint32_t hz)
{
    speed_hz = hz;
}

static void select_card(void *, bool selected)
{
    digitalWrite(card_select, selected ? LOW : HIGH);
}

static void transfer(void *, const uint8_t *send, uint8_t *receive, uint32_t bytes)
{
    SPI.beginTransaction(SPISettings(speed_hz, MSBFIRST, SPI_MODE0));
    for (uint32_t i = 0; i < bytes; i++) {
        const uint8_t received = SPI.transfer(send != nullptr ? send[i] : 0xFF);
        if (receive != nullptr) {
            receive[i] = received;
        }
    }
    SPI.endTransaction();
}

static uint32_t microseconds()
{
    return micros();
}

static const poet_spi bus = {nullptr, 8000000, set_speed, select_card, transfer, nullptr, nullptr, microseconds, 1000000};

void poet_board_init()
{
    pinMode(card_select, OUTPUT);
    digitalWrite(card_select, HIGH);
    Serial.begin(115200);
    SPI.begin();
}

void poet_board_putchar(char byte)
{
    Serial.write(static_cast<uint8_t>(byte));
}

void poet_board_flush()
{
    Serial.flush();
}

// There is no driver: the watch keeps all on the card.
int poet_board_flash(uint32_t, poet_block_device *)
{
    return POET_E_UNSUPPORTED;
}

int poet_board_storage(poet_block_device *device)
{
    return poet_sdcard_init(&sdcard, &bus, device);
}
