// SPDX-License-Identifier: Apache-2.0
// What the wearer has shown, on the card: two blocks a window, in front of what poet has there. It outlives a reset.
#ifndef DIARY_HPP
#define DIARY_HPP

#include <poet/block_device.h>
#include <poet/crc32.h>
#include <poet/status.h>

#include "window.hpp"

class Diary {
public:
    static constexpr uint32_t entries = 56, blocks = 2 * entries;

    explicit Diary(const poet_block_device &card) : card_(card) {}

    // How many windows are there already.
    uint32_t count()
    {
        uint32_t found = 0;
        while (found < entries && read(found) == POET_OK) {
            found++;
        }
        return found;
    }

    int write(uint32_t place, const Window &window, uint32_t exercise)
    {
        entry_.window = window;
        entry_.exercise = exercise;
        entry_.crc = crc();
        return card_.write(card_.context, 2 * place, &entry_, sizeof entry_);
    }

    // POET_E_ABSENT: there is none, or the power went while it was written.
    int read(uint32_t place)
    {
        const int status = card_.read(card_.context, 2 * place, &entry_, sizeof entry_);
        return status == POET_OK && entry_.crc != crc() ? POET_E_ABSENT : status;
    }

    const Window &window() const { return entry_.window; }
    uint32_t exercise() const { return entry_.exercise; }

private:
    struct Entry {
        Window window;
        uint32_t exercise, crc;
    };

    // Not from 0: blocks of zeros would have it.
    uint32_t crc() const { return poet_crc32(~0u, &entry_, sizeof entry_ - sizeof entry_.crc); }

    const poet_block_device &card_;
    Entry entry_;
};

#endif
