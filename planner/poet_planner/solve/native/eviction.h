/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule by eviction; what that is, and what the fields are, stands in search/eviction.py. */
#ifndef POET_EVICTION_H
#define POET_EVICTION_H

#include "problem.h"
#include "tally.h"

#define EVICTION(ARRAY, TABLE, SCALAR) \
    ARRAY(const int64_t, order)        \
    ARRAY(const int64_t, position)     \
    ARRAY(const double, worth)         \
    SCALAR(double, patience)           \
    ARRAY(int64_t, events)             \
    ARRAY(bool, in_ram)                \
    ARRAY(int64_t, pinned)             \
    ARRAY(bool, paged)                 \
    ARRAY(bool, computed)              \
    ARRAY(int64_t, needed)             \
    ARRAY(double, cost)                \
    ARRAY(int64_t, stack)              \
    ARRAY(int64_t, gathered)

STRUCT(eviction, EVICTION);

/* Write eviction->events; returns their number, or -1 if the pass fails or the tally is used up: a step of it looks at
 * all values once. */
int64_t eviction_pass(const struct problem *problem, struct eviction *eviction, volatile int64_t *tally);

#endif
