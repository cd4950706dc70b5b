/* SPDX-License-Identifier: Apache-2.0 */
/* Memory states as rows of bits, and what a move backwards in time changes.
 *
 * A row holds N, the nodes whose first compute lies before the state, then W, the values that RAM must hold; `held` is
 * W alone. See docs/optimiser/state_space.md, "Memory states". */
#ifndef POET_MEMORY_STATE_H
#define POET_MEMORY_STATE_H

#include "bitset.h"
#include "problem.h"

/* The word of a row at which W begins. */
static inline int64_t values_at(const struct problem *problem)
{
    return words_of(nodes_of(problem));
}

/* Whether N is empty: the beginning of the schedule. */
static inline bool is_goal(const struct problem *problem, const int64_t *row)
{
    int64_t left = 0;
    for (int64_t word = 0; word < values_at(problem); word++) {
        left |= row[word];
    }
    return left == 0;
}

/* Whether no node in N is one of `users`, which need a value of a node: then its first compute may come right before.
 */
static inline bool can_leave(const int64_t *users, const int64_t *row, int64_t words)
{
    int64_t left = 0;
    for (int64_t word = 0; word < words; word++) {
        left |= users[word] & row[word];
    }
    return left == 0;
}

/* Whether RAM must hold any value of node j. */
static inline bool is_output_held(const struct problem *problem, const int64_t *held, int64_t j)
{
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        if (has(held, v)) {
            return true;
        }
    }
    return false;
}

/* Bytes of the values in W. */
static inline int64_t bytes_held(const struct problem *problem, const int64_t *held)
{
    int64_t bytes = 0;
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (has(held, v)) {
            bytes += problem->size[v];
        }
    }
    return bytes;
}

/* Bytes that W gains before node j is computed. */
static inline int64_t bytes_added(const struct problem *problem, const int64_t *held, int64_t j)
{
    int64_t added = 0;
    for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (!has(held, v)) {
            added += problem->size[v];
        }
    }
    return added;
}

/* Bytes that W loses before node j is computed. */
static inline int64_t bytes_freed(const struct problem *problem, const int64_t *held, int64_t j)
{
    int64_t freed = 0;
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        if (has(held, v)) {
            freed += problem->size[v];
        }
    }
    return freed;
}

/* Whether W, after node j, holds an input that j takes over: then j is not what was computed. */
static inline bool keeps_taken(const struct problem *problem, const int64_t *held, int64_t j)
{
    for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (problem->taken[v] && has(held, v)) {
            return true;
        }
    }
    return false;
}

/* Whether node j can be computed while RAM holds `bytes`, its inputs included. */
static inline bool fits(const struct problem *problem, int64_t bytes, int64_t j)
{
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        bytes += problem->size[v];
    }
    return bytes + problem->workspace[j] <= problem->budget;
}

/* Whether RAM allows that node j was computed right before the state, which has `bytes` in W. */
static inline bool ram_allows(const struct problem *problem, const int64_t *held, int64_t bytes, int64_t j)
{
    return fits(problem, bytes + bytes_added(problem, held, j) - bytes_freed(problem, held, j), j) &&
           !keeps_taken(problem, held, j);
}

/* Turn W into what RAM must hold before node j is computed. */
static inline void uncompute(const struct problem *problem, int64_t *held, int64_t j)
{
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        take_out(held, v);
    }
    for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (problem->size[v] > 0) {
            put(held, v);
        }
    }
}

void force_moves(const struct problem *problem, const int64_t *users, const bool *deferrable, int64_t *row);

#endif
