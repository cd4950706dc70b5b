// SPDX-License-Identifier: Apache-2.0
// What the wearer has shown: two blocks a window, in front of what poet has there. It outlives a reset.
#ifndef DIARY_HPP
#define DIARY_HPP

#include <poet/block_device.h>
#include <poet/crc32.h>
#include <poet/status.h>

#include "window.hpp"

class Diary {
public:
    // Some more than it needs: flash takes a place only once, also one that the power went in.
    static constexpr uint32_t entries = 56, places = entries + 4, blocks = 2 * places;

    explicit Diary(const poet_block_device &storage) : storage_(storage) {}

    // How many windows are there already.
    uint32_t count()
    {
        for (count_ = next_ = 0; count_ < entries && next_ < places; next_++) {
            where_[count_] = static_cast<uint8_t>(next_);
            const int status = read(count_);
            if (status == POET_OK) {
                count_++;
            } else if (status != POET_E_ABSENT || storage_.erase_blocks == 0 || is_blank()) {
                break;
            }
        }
        return count_;
    }

    // Makes room for the first one.
    int clear()
    {
        next_ = 0;
        return storage_.erase_blocks == 0 ? POET_OK : storage_.erase(storage_.context, 0, blocks);
    }

    int write(const Window &window, uint32_t exercise)
    {
        if (next_ == places) {
            return POET_E_FULL;
        }
        entry_.window = window;
        entry_.exercise = exercise;
        entry_.crc = crc();
        where_[count_++] = static_cast<uint8_t>(next_);
        return storage_.write(storage_.context, 2 * next_++, &entry_, sizeof entry_);
    }

    // POET_E_ABSENT: there is none, or the power went while it was written.
    int read(uint32_t number)
    {
        const int status = storage_.read(storage_.context, 2u * where_[number], &entry_, sizeof entry_);
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

    bool is_blank() const
    {
        const unsigned char *bytes = reinterpret_cast<const unsigned char *>(&entry_);
        uint32_t erased = 0;
        while (erased < sizeof entry_ && bytes[erased] == 0xFF) {
            erased++;
        }
        return erased == sizeof entry_;
    }

    const poet_block_device &storage_;
    Entry entry_;
    uint8_t where_[entries];
    uint32_t count_, next_;
};

#endif
