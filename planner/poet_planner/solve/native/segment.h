/* SPDX-License-Identifier: Apache-2.0 */
/* One segment of a schedule; the fields are explained in statespace/segment.py. */
#ifndef POET_SEGMENT_H
#define POET_SEGMENT_H

#include "path_search.h"
#include "tally.h"

#define SEGMENT(ARRAY, TABLE, SCALAR)       \
    SCALAR(const struct problem *, problem) \
    TABLE(const int64_t, users)             \
    TABLE(const int64_t, made)              \
    TABLE(const int64_t, needed)            \
    ARRAY(const int64_t, need)              \
    SCALAR(int64_t, start)                  \
    ARRAY(const bool, inside)               \
    ARRAY(const bool, deferrable)           \
    ARRAY(const double, energy)             \
    SCALAR(int64_t, middle)                 \
    ARRAY(const bool, before_middle)        \
    ARRAY(const bool, after_middle)         \
    ARRAY(const int64_t, beside_middle)     \
    ARRAY(const int64_t, start_values)

STRUCT(segment, SEGMENT);

#define SEGMENT_STARTS(ARRAY, TABLE, SCALAR) \
    SCALAR(const struct segment *, segment)  \
    TABLE(const int64_t, at_start) TABLE(int64_t, until_middle) ARRAY(int64_t, need) ARRAY(int64_t, counted)

STRUCT(segment_starts, SEGMENT_STARTS);

/* How a search ended: whether by itself, a lower bound, and the goal or -1. */
struct segment_path {
    bool complete;
    double least;
    int64_t goal;
};

void keep_until_middle(const struct segment_starts *starts);
void lower_bounds(const struct segment_starts *starts, const int64_t *ends, int64_t end_count, double *least,
                  volatile int64_t *tally);
struct segment_path search_segment(const struct segment_starts *starts, int64_t start, const int64_t *end, double limit,
                                   struct path_search *search, volatile int64_t *tally);

#endif
