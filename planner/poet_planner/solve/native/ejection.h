/* SPDX-License-Identifier: Apache-2.0 */
/* The ejection search; what that is, and what the fields are, stands in placement/ejection.py. */
#ifndef POET_EJECTION_H
#define POET_EJECTION_H

#include "engine.h"
#include "tally.h"

#define EJECTION(ARRAY, TABLE, SCALAR) \
    ARRAY(const int64_t, start)        \
    ARRAY(const int64_t, end)          \
    ARRAY(const int64_t, size)         \
    SCALAR(int64_t, capacity)          \
    ARRAY(int64_t, offsets)            \
    ARRAY(int64_t, weight)             \
    SCALAR(double, growth)             \
    ARRAY(uint64_t, random)            \
    ARRAY(int64_t, bottom)             \
    ARRAY(int64_t, top)                \
    ARRAY(int64_t, by_bottom)          \
    ARRAY(int64_t, by_top)             \
    ARRAY(int64_t, below)              \
    ARRAY(int64_t, above)              \
    ARRAY(int64_t, waiting)

STRUCT(ejection, EJECTION);

bool eject(struct ejection *search, int64_t placed, int64_t moves, volatile int64_t *tally);

#endif
