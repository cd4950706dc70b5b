/* SPDX-License-Identifier: Apache-2.0 */
/* First fit of blocks in a given order (placement/first_fit.py). */
#ifndef POET_FIRST_FIT_H
#define POET_FIRST_FIT_H

#include "engine.h"
#include "tally.h"

int64_t first_fit(int64_t count, const int64_t *order, const int64_t *start, const int64_t *end, const int64_t *size,
                  bool by_start, int64_t *offsets, int64_t *placed, volatile int64_t *tally);

/* Insert `block` into the first `count` blocks, which are sorted by `key`. */
static inline void insert(int64_t *ordered, int64_t count, int64_t block, const int64_t *key)
{
    int64_t at = count;
    while (at > 0 && key[ordered[at - 1]] > key[block]) {
        ordered[at] = ordered[at - 1];
        at--;
    }
    ordered[at] = block;
}

#endif
