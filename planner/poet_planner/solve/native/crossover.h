/* SPDX-License-Identifier: Apache-2.0 */
/* One-point crossover; what that is, and what the fields are, stands in search/crossover.py. */
#ifndef POET_CROSSOVER_H
#define POET_CROSSOVER_H

#include "evaluation.h"

#define PARENT(ARRAY, TABLE, SCALAR) \
    ARRAY(const int64_t, events)     \
    ARRAY(const int64_t, places)

STRUCT(parent, PARENT);

/* Leave the cheapest offspring in work->kept; returns its length, or -1 if there is none. */
int64_t cheapest_offspring(const struct problem *problem, const struct parent *one, const struct parent *other,
                           double per_byte, double per_second, struct workspace *work);

#endif
