// SPDX-License-Identifier: Apache-2.0
// An SD card on SPI as storage, by poet's own driver. Not SD.h: it keeps blocks to itself, and knows files.
//
//     PoetCard::begin(SS);
//     PoetBoard::useStorage(PoetCard::open);
#ifndef POET_CARD_H
#define POET_CARD_H

#include <Arduino.h>
#include <SPI.h>

#include "poet/sdcard.h"

class PoetCard
{
public:
    static void begin(int select, uint32_t most_hz = 8000000)
    {
        all().select = select;
        all().bus = {nullptr, most_hz, set_speed, select_card, transfer, nullptr, nullptr, ticks, 1000000u};
        pinMode(select, OUTPUT);
        digitalWrite(select, HIGH);
        SPI.begin();
    }

    static int open(poet_block_device * device)
    {
        return poet_sdcard_init(&all().card, &all().bus, device);
    }

private:
    struct Card {
        poet_sdcard card;
        poet_spi bus;
        uint32_t speed_hz;
        int select;
    };

    static Card &all()
    {
        static Card one;
        return one;
    }

    static void set_speed(void *, uint32_t hz)
    {
        all().speed_hz = hz;
    }

    static void select_card(void *, bool selected)
    {
        digitalWrite(all().select, selected ? LOW : HIGH);
    }

    static void transfer(void *, const uint8_t *send, uint8_t *receive, uint32_t bytes)
    {
        SPI.beginTransaction(SPISettings(all().speed_hz, MSBFIRST, SPI_MODE0));
        for (uint32_t i = 0; i < bytes; i++) {
            const uint8_t received = SPI.transfer(send != nullptr ? send[i] : 0xFF);
            if (receive != nullptr) {
                receive[i] = received;
            }
        }
        SPI.endTransaction();
    }

    static uint32_t ticks()
    {
        return static_cast<uint32_t>(micros());
    }
};

#endif
