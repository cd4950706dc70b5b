/* SPDX-License-Identifier: Apache-2.0 */
/* How much a call may do: the steps so far, and the most. Another thread may lower the most (time_budget.py). */
#ifndef POET_TALLY_H
#define POET_TALLY_H

#include <stdbool.h>
#include <stdint.h>

static inline bool is_used_up(const volatile int64_t *tally)
{
    return tally[0] >= tally[1];
}

static inline void count_steps(volatile int64_t *tally, int64_t steps)
{
    tally[0] += steps;
}

#endif
