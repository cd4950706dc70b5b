/* SPDX-License-Identifier: Apache-2.0 */
/* The complete search for offsets; what that is, and what the fields are, stands in placement/canonical.py. */
#ifndef POET_CANONICAL_H
#define POET_CANONICAL_H

#include "engine.h"
#include "tally.h"

#define CANONICAL_SEARCH(ARRAY, TABLE, SCALAR) \
    SCALAR(int64_t, capacity)                  \
    SCALAR(int64_t, depth)                     \
    SCALAR(int64_t, changed)                   \
    SCALAR(bool, full)                         \
    ARRAY(const int64_t, first)                \
    ARRAY(const int64_t, last)                 \
    ARRAY(const int64_t, size)                 \
    ARRAY(const int64_t, twin)                 \
    ARRAY(const int64_t, mark)                 \
    ARRAY(const int64_t, starting)             \
    ARRAY(const int64_t, alive_start)          \
    ARRAY(int64_t, alive)                      \
    ARRAY(int64_t, floor)                      \
    ARRAY(int64_t, unplaced)                   \
    ARRAY(int64_t, leaving)                    \
    ARRAY(double, weight)                      \
    ARRAY(int64_t, least)                      \
    ARRAY(int64_t, offset)                     \
    ARRAY(bool, placed)                        \
    ARRAY(bool, excluded)                      \
    ARRAY(int64_t, covers)                     \
    TABLE(int64_t, changes)                    \
    TABLE(int64_t, decisions)                  \
    TABLE(uint64_t, conflicts)                 \
    ARRAY(uint64_t, conflict)                  \
    ARRAY(uint64_t, failed)

STRUCT(canonical_search, CANONICAL_SEARCH);

/* What a run comes to. */
enum outcome { FITS, FAILS, OPEN, CUT_OFF, FULL, DEEP };

void canonical_fill(struct canonical_search *search, const int64_t *order, int64_t *filled);
enum outcome canonical_run(struct canonical_search *search, int64_t limit, volatile int64_t *tally);

#endif
