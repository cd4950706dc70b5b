/* SPDX-License-Identifier: Apache-2.0 */
/* One instance; its fields are explained in instance.py. */
#ifndef POET_PROBLEM_H
#define POET_PROBLEM_H

#include "engine.h"

#define PROBLEM(ARRAY, TABLE, SCALAR)  \
    ARRAY(const double, node_time)     \
    ARRAY(const double, node_energy)   \
    ARRAY(const int64_t, workspace)    \
    ARRAY(const bool, recomputable)    \
    ARRAY(const bool, uses_cpu)        \
    ARRAY(const bool, uses_bus)        \
    ARRAY(const int64_t, output_start) \
    ARRAY(const int64_t, producer)     \
    ARRAY(const int64_t, size)         \
    ARRAY(const bool, taken)           \
    ARRAY(const bool, pageable)        \
    ARRAY(const double, in_time)       \
    ARRAY(const double, in_energy)     \
    ARRAY(const double, out_time)      \
    ARRAY(const double, out_energy)    \
    ARRAY(const int64_t, input_start)  \
    ARRAY(const int64_t, input_value)  \
    ARRAY(const int64_t, use_start)    \
    ARRAY(const int64_t, use_node)     \
    SCALAR(int64_t, budget)            \
    SCALAR(double, deadline)           \
    SCALAR(bool, dma)                  \
    ARRAY(const bool, is_event_point)

STRUCT(problem, PROBLEM);

/* The number of nodes. */
static inline int64_t nodes_of(const struct problem *problem)
{
    return problem->node_time_count;
}

/* The number of values. */
static inline int64_t values_of(const struct problem *problem)
{
    return problem->size_count;
}

#endif
