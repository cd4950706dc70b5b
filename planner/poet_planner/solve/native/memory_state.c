/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_state.h"

/* Bytes of the pageable values of node j in W. They may have been on the card, where they take no RAM. */
static int64_t pageable_bytes(const struct problem *problem, const int64_t *held, int64_t j)
{
    int64_t bytes = 0;
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        if (has(held, v) && problem->pageable[v]) {
            bytes += problem->size[v];
        }
    }
    return bytes;
}

/* Make the forced moves: first computes of `deferrable` nodes that may come right before without loss.
 *
 * A first compute is forced if it adds no more bytes to W than it frees of unpageable values. Row j of `users` has the
 * nodes that need a value of j. */
void force_moves(const struct problem *problem, const int64_t *users, const bool *deferrable, int64_t *row)
{
    const int64_t words = values_at(problem);
    int64_t *const held = row + words;
    int64_t bytes = bytes_held(problem, held);
    for (int64_t j = nodes_of(problem) - 1; j >= 0; j--) {
        if (!deferrable[j] || !has(row, j) || !can_leave(users + j * words, row, words) ||
            keeps_taken(problem, held, j)) {
            continue;
        }
        const int64_t added = bytes_added(problem, held, j);
        const int64_t freed = bytes_freed(problem, held, j);
        if (added <= freed - pageable_bytes(problem, held, j) && fits(problem, bytes + added - freed, j)) {
            bytes += added - freed;
            uncompute(problem, held, j);
            take_out(row, j);
        }
    }
}
