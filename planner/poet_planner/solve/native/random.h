/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, from the generator whose state is workspace.random. */
#ifndef POET_RANDOM_H
#define POET_RANDOM_H

#include "evaluation.h"
#include "minmax.h"

/* A number in [0, 1), uniform (xorshift64*). */
static inline double uniform(struct workspace *work)
{
    uint64_t x = work->random[0];
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    work->random[0] = x;
    return (double)((x * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* A whole number from 0 to count - 1, uniform. */
static inline int64_t below(struct workspace *work, int64_t count)
{
    return min_int(count - 1, (int64_t)(uniform(work) * (double)count));
}

#endif
