/* SPDX-License-Identifier: Apache-2.0 */
/* The moves of the annealing: random edits of the current state (docs/optimiser/search.md, "Moves").
 *
 * The costs that a move compares are energy plus per_second times seconds. A move that returns false may have made
 * edits: they do not count. */
#ifndef POET_MOVES_H
#define POET_MOVES_H

#include "delta_evaluation.h"

/* The draws of random_move that change how a value is restored, which may make room: from the first, below the other.
 */
#define MAKES_ROOM 0.71
#define MAKES_NO_MORE_ROOM 0.8

struct move {
    const struct problem *problem;
    struct workspace *work;         /* holds the sequence that is edited, evaluated */
    struct delta_evaluation *delta; /* receives the edits */
    int64_t length;                 /* of that sequence */
    double per_second;              /* the current penalty for a second over the deadline */
    bool changed_first;             /* at an overflow, always prefer a value that is in RAM because of the edits; else
                                     * every second time */
};

/* A move that does not look at overflow; false if there is nothing to edit. */
bool random_move(const struct move *move, double draw);

/* Shift an event, or a block of up to six, by a log-uniform distance, as far as precedence allows. */
bool shift(const struct move *move);

/* At an overflow, drop a value that is idle there and restore it before its next use. */
bool split_overflow(const struct move *move);

#endif
