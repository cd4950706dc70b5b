/* SPDX-License-Identifier: Apache-2.0 */
/* A* over the memory states of an abstraction; the fields are explained in statespace/astar.py and abstraction.py. */
#ifndef POET_ASTAR_H
#define POET_ASTAR_H

#include "path_search.h"
#include "tally.h"

#define ABSTRACTION(ARRAY, TABLE, SCALAR)   \
    SCALAR(const struct problem *, problem) \
    TABLE(const int64_t, users)             \
    ARRAY(const bool, deferrable)           \
    ARRAY(const bool, counts_page_out)      \
    ARRAY(const int64_t, representative)

STRUCT(abstraction, ABSTRACTION);

#define PATTERN_DATABASE(ARRAY, TABLE, SCALAR)      \
    SCALAR(const struct abstraction *, abstraction) \
    TABLE(const int64_t, rows)                      \
    ARRAY(const double, to_go)                      \
    ARRAY(const int64_t, slots)                     \
    SCALAR(const struct pattern_database *, coarser)

STRUCT(pattern_database, PATTERN_DATABASE);

#define EXPLORATION(ARRAY, TABLE, SCALAR)             \
    SCALAR(const struct abstraction *, abstraction)   \
    SCALAR(const struct pattern_database *, database) \
    ARRAY(const int64_t, start)                       \
    ARRAY(const int64_t, goal)                        \
    SCALAR(struct path_search *, search)              \
    SCALAR(double, limit)                             \
    SCALAR(bool, keeps_edges)                         \
    SCALAR(int64_t, enough)                           \
    ARRAY(int64_t, arriving)                          \
    TABLE(int64_t, edges)                             \
    ARRAY(double, edge_energy)                        \
    ARRAY(int64_t, key)

STRUCT(exploration, EXPLORATION);

/* How a search ended: whether by itself, the lower bound, the goal or -1, and the number of edges. */
struct explored {
    bool complete;
    double lower_bound;
    int64_t goal;
    int64_t edges;
};

struct explored explore_states(const struct exploration *task, volatile int64_t *tally);
void settle_to_go(const int64_t *arriving, const int64_t *edges, const double *edge_energy, const double *floor,
                  double *to_go, int64_t states, double limit, struct open_states *open);

#endif
