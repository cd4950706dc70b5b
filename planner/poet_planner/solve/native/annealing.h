/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated annealing; what that is, and what the fields are, stands in search/annealing.py. */
#ifndef POET_ANNEALING_H
#define POET_ANNEALING_H

#include "delta_evaluation.h"

#define STATE(ARRAY, TABLE, SCALAR) \
    ARRAY(int64_t, current)         \
    ARRAY(int64_t, best)            \
    ARRAY(double, figures)          \
    ARRAY(int64_t, lengths)

STRUCT(state, STATE);

/* Entries of state.figures. */
enum { ENERGY, TIME, OVERFLOW, PER_BYTE, PER_SECOND, TEMPERATURE, COOLING_FACTOR, BEST, SPLITTING, ENERGY_CAP };

/* Entries of state.lengths. */
enum { CURRENT_LENGTH, BEST_LENGTH, MOVES, OVER_BUDGET, LATE, SPLIT_REPAIRS, CHANGED_FIRST };

/* Make `events` the current state. False, and nothing changes, if it is no schedule. */
bool start_from(const struct problem *problem, struct workspace *work, struct state *state, const int64_t *events,
                int64_t length);

/* Make `moves` moves at falling temperature. `other` and `spare` are scratch. */
void anneal(const struct problem *problem, struct workspace *work, struct workspace *other,
            struct delta_evaluation *delta, struct delta_evaluation *spare, struct state *state, int64_t moves);

/* Shift events `moves` times; a shift that breaks a limit or raises the energy is rejected. */
void reorder(const struct problem *problem, struct workspace *work, struct workspace *other,
             struct delta_evaluation *delta, struct state *state, int64_t moves);

#endif
