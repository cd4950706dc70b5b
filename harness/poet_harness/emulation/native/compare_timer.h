/* SPDX-License-Identifier: Apache-2.0 */
/* A counter of 32 bits that runs freely, with compare channels: the same in all chips but for its registers, which
 * peripherals/compare_timer.py lists.
 *
 *     started at cycle 1000, 4 cycles a tick, channel 0 compares with 25: its flag is set from cycle 1100 on
 */
#ifndef EMULATION_COMPARE_TIMER_H
#define EMULATION_COMPARE_TIMER_H

#include "machine.h"

#define TIMER_CHANNELS 2u

/* What an access to a register does. All that need the count are for Python to refuse before the timer is started. */
enum timer_action {
    TIMER_NOTHING,       /* for Python to do */
    TIMER_COUNT,         /* load: the count */
    TIMER_CAPTURE,       /* store: keep the count; `argument` is what must be written, 0 if anything will do */
    TIMER_CAPTURED,      /* load: the count that was kept */
    TIMER_TAKE_CAPTURED, /* the same, once */
    TIMER_COMPARE,       /* channel `argument`'s */
    TIMER_FLAG,          /* channel `argument`'s alone, as 0 or 1 */
    TIMER_FLAGS,         /* of all channels; store: 0 clears */
    TIMER_CLEAR_FLAGS,   /* store: 1 clears */
    TIMER_INTERRUPTS,    /* which flags interrupt */
    TIMER_ENABLE,        /* store: 1 adds an interrupt */
    TIMER_DISABLE,       /* store: 1 takes one away */
};

struct timer_register {
    uint32_t offset, width;
    uint32_t load, store; /* enum timer_action */
    uint32_t argument;
};

struct compare_timer {
    struct machine *machine;
    const struct timer_register *registers;
    uint32_t register_count;
    uint32_t channel_flags[TIMER_CHANNELS]; /* each channel's bit in the registers of flags and interrupts */
    uint32_t cycles_a_tick;                 /* 0: not started */
    uint64_t started_at;
    uint64_t due[TIMER_CHANNELS]; /* when a flag will be set; UINT64_MAX before a compare value is written */
    uint32_t compare[TIMER_CHANNELS];
    uint32_t flags, interrupts;
    uint32_t captured, is_captured;
};

load_function compare_timer_load;
store_function compare_timer_store;
bool compare_timer_pending_at(const void *timer, uint64_t now, uint64_t *when);

#endif
