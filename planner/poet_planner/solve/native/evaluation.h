/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of a sequence of events; what that is, and what the fields are, stands in search/evaluation.py. */
#ifndef POET_EVALUATION_H
#define POET_EVALUATION_H

#include "problem.h"

#define WORKSPACE(ARRAY, TABLE, SCALAR) \
    ARRAY(int64_t, candidate)           \
    ARRAY(int64_t, kept)                \
    ARRAY(int64_t, memory)              \
    ARRAY(int64_t, live)                \
    ARRAY(int64_t, touch_start)         \
    ARRAY(int64_t, touch_place)         \
    ARRAY(int64_t, touch_live)          \
    ARRAY(int64_t, extra)               \
    ARRAY(int64_t, life_value)          \
    ARRAY(int64_t, life_start)          \
    ARRAY(int64_t, life_end)            \
    ARRAY(int64_t, last_use)            \
    ARRAY(int64_t, total)               \
    ARRAY(int64_t, seen)                \
    ARRAY(int64_t, source)              \
    ARRAY(int64_t, paged)               \
    ARRAY(int64_t, stamp)               \
    ARRAY(int64_t, first)               \
    ARRAY(int64_t, inserted)            \
    ARRAY(int64_t, ending)              \
    ARRAY(int64_t, next_ending)         \
    ARRAY(int64_t, leaving)             \
    ARRAY(double, arrives)              \
    ARRAY(double, let_go)               \
    ARRAY(int64_t, counters)            \
    ARRAY(uint64_t, random)

STRUCT(workspace, WORKSPACE);

/* Entries of workspace.counters. */
enum { EXTRAS, LIVES, STAMP };

/* Stands for the RAM at an event where the RAM is not limited. */
#define UNCOUNTED (-((int64_t)1 << 50))

/* Of a sequence: number of needed events (-1: no schedule), joules, seconds, bytes over the budget, summed. */
struct evaluation {
    int64_t length;
    double energy;
    double time;
    double overflow;
};

/* Seconds over the deadline. */
static inline double late(const struct problem *problem, double time)
{
    const double over = time - problem->deadline;
    return over > 0.0 ? over : 0.0;
}

/* Energy and penalties, in joules. */
static inline double cost_of(const struct problem *problem, struct evaluation found, double per_byte, double per_second)
{
    return found.energy + per_byte * found.overflow + per_second * late(problem, found.time);
}

/* Whether two energies are equal, up to the order in which they were summed; as `same` in search/incumbent.py. */
static inline bool same(double energy, double other)
{
    const double difference = energy > other ? energy - other : other - energy;
    return difference <= 1e-12 * other;
}

struct evaluation evaluate(const struct problem *problem, const int64_t *events, int64_t length,
                           struct workspace *work);
bool index_touches(const struct problem *problem, struct workspace *work, int64_t length);

#endif
