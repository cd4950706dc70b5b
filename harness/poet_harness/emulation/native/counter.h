/* SPDX-License-Identifier: Apache-2.0 */
/* Emulated time: CPU cycles since power-on. */
#ifndef EMULATION_COUNTER_H
#define EMULATION_COUNTER_H

#include <stdint.h>

#define LINE_BYTES 8u
#define LINES 8u

struct counter {
    uint64_t cycles;
    uint64_t limit;    /* stop at the first block at or after this */
    uint32_t expected; /* where the last block ended */
    uint32_t refill;
    uint32_t begin, end; /* addresses that `prefix` covers */
    uint32_t stopped;
    uint32_t strayed; /* an address outside of them, and 1 */
    const uint32_t *prefix;
    int (*stop)(void *engine);
    uint32_t flash_wait;   /* cycles for a line that is not in the cache; 0: there is none to wait for */
    uint32_t lines[LINES]; /* the line that each place of the direct-mapped cache holds */
};

/* Skips ahead, if that time has not come yet. */
static inline void advance_to(struct counter *counter, uint64_t cycles)
{
    if (cycles > counter->cycles) {
        counter->cycles = cycles;
    }
}

#endif
