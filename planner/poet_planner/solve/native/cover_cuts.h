/* SPDX-License-Identifier: Apache-2.0 */
/* Restoration and cover cuts; the fields are explained in relaxation/cover_cuts.py and columns.py. */
#ifndef POET_COVER_CUTS_H
#define POET_COVER_CUTS_H

#include "problem.h"

#define COLUMNS(ARRAY, TABLE, SCALAR)  \
    ARRAY(const int64_t, event_points) \
    TABLE(const int64_t, compute)      \
    TABLE(const int64_t, page_in)      \
    TABLE(const int64_t, keep)         \
    ARRAY(const int64_t, page_out)     \
    TABLE(const int64_t, interval_end)

STRUCT(columns, COLUMNS);

#define POINT(ARRAY, TABLE, SCALAR) \
    TABLE(const double, computed)   \
    TABLE(const double, paged)      \
    TABLE(const double, kept)       \
    ARRAY(const double, out)

STRUCT(point, POINT);

#define SEPARATION(ARRAY, TABLE, SCALAR)    \
    SCALAR(const struct problem *, problem) \
    SCALAR(const struct columns *, columns) \
    SCALAR(const struct point *, point)     \
    ARRAY(int64_t, starts)                  \
    ARRAY(int64_t, numbers)                 \
    ARRAY(double, coefficients)             \
    ARRAY(double, weights)                  \
    ARRAY(int64_t, touched)                 \
    TABLE(int64_t, chains)                  \
    TABLE(double, restored)                 \
    TABLE(double, worst)                    \
    TABLE(int64_t, worst_at)                \
    ARRAY(int64_t, group)                   \
    ARRAY(double, amount)                   \
    ARRAY(int64_t, divisors)

STRUCT(separation, SEPARATION);

/* How many cuts there are, and how many coefficients they have together. */
struct cut_counts {
    int64_t cuts;
    int64_t coefficients;
};

struct cut_counts separate(const struct separation *task);

#endif
