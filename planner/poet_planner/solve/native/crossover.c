/* SPDX-License-Identifier: Apache-2.0 */
#include "crossover.h"

#include <math.h>
#include <string.h>

#include "minmax.h"

FIELDS(parent, PARENT)

/* Evaluate `one` up to the first compute of a node, followed by what `other` has after that. */
static struct evaluation evaluate_offspring(const struct problem *problem, const struct parent *one,
                                            const struct parent *other, int64_t node, struct workspace *work)
{
    const int64_t room = work->candidate_count;
    const int64_t head = min_int(room, one->places[node] + 1);
    const int64_t start = other->places[node] + 1;
    const int64_t tail = min_int(room - head, other->events_count - start);
    memcpy(work->candidate, one->events, (size_t)head * sizeof *work->candidate);
    memcpy(work->candidate + head, other->events + start, (size_t)tail * sizeof *work->candidate);
    return evaluate(problem, work->candidate, head + tail, work);
}

int64_t cheapest_offspring(const struct problem *problem, const struct parent *one, const struct parent *other,
                           double per_byte, double per_second, struct workspace *work)
{
    const double one_energy = evaluate(problem, one->events, one->events_count, work).energy;
    const double other_energy = evaluate(problem, other->events, other->events_count, work).energy;
    double least = (double)INFINITY;
    int64_t best = -1;
    for (int64_t node = 0; node < nodes_of(problem); node++) {
        const struct evaluation found = evaluate_offspring(problem, one, other, node, work);
        if (found.length < 0 || same(found.energy, one_energy) || same(found.energy, other_energy)) {
            continue;
        }
        const double cost = cost_of(problem, found, per_byte, per_second);
        if (cost < least) {
            least = cost;
            best = node;
        }
    }
    return best < 0 ? -1 : evaluate_offspring(problem, one, other, best, work).length;
}
