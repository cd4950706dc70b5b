/* SPDX-License-Identifier: Apache-2.0 */
#include "eviction.h"

#include <math.h>

FIELDS(eviction, EVICTION)

/* Later than any place in a schedule. */
#define NEVER ((int64_t)1 << 62)

/* Where a pass is. */
struct pass {
    const struct problem *problem;
    struct eviction *eviction;
    volatile int64_t *tally;
    int64_t now;    /* position of the node that is computed for the first time */
    int64_t depth;  /* number of nodes on the stack: that one, and those computed again for it */
    int64_t used;   /* bytes */
    int64_t length; /* number of events */
};

static double page_energy(const struct problem *problem, const struct eviction *eviction, int64_t v)
{
    return problem->in_energy[v] + (eviction->paged[v] ? 0.0 : problem->out_energy[v]);
}

/* Position of the next use of v. Uses within restores count. */
static int64_t next_position(const struct problem *problem, const struct eviction *eviction, int64_t v)
{
    int64_t next = NEVER;
    for (int64_t k = problem->use_start[v]; k < problem->use_start[v + 1]; k++) {
        const int64_t user = problem->use_node[k];
        if (!eviction->computed[user]) {
            next = eviction->position[user] < next ? eviction->position[user] : next;
            continue;
        }
        for (int64_t u = problem->output_start[user]; u < problem->output_start[user + 1]; u++) {
            if (!eviction->in_ram[u] && eviction->needed[u] < next) {
                next = eviction->needed[u];
            }
        }
    }
    return next;
}

/* For each value, the position of its next use and the energy of restoring it. */
static void find_prospects(const struct problem *problem, struct eviction *eviction)
{
    for (int64_t v = values_of(problem) - 1; v >= 0; v--) {
        eviction->needed[v] = next_position(problem, eviction, v);
    }
    for (int64_t j = 0; j < nodes_of(problem); j++) {
        double energy = problem->recomputable[j] ? problem->node_energy[j] : (double)INFINITY;
        for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
            if (!eviction->in_ram[problem->input_value[k]]) {
                energy += eviction->cost[problem->input_value[k]];
            }
        }
        for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
            const double paging = problem->pageable[v] ? page_energy(problem, eviction, v) : (double)INFINITY;
            eviction->cost[v] = paging < energy ? paging : energy;
        }
    }
}

/* The value with the lowest score, to be evicted; -1 if there is none. */
static int64_t cheapest(const struct pass *pass)
{
    const struct problem *problem = pass->problem;
    const struct eviction *eviction = pass->eviction;
    int64_t best = -1;
    double least = (double)INFINITY;
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (!eviction->in_ram[v] || eviction->pinned[v] > 0 || problem->size[v] == 0) {
            continue;
        }
        if (eviction->needed[v] == NEVER) {
            return v;
        }
        const double wait = (double)(eviction->needed[v] - pass->now) + 1.0;
        const double score = (eviction->cost[v] + 1e-12) * eviction->worth[v] / pow(wait, eviction->patience);
        if (score < least) {
            least = score;
            best = v;
        }
    }
    return best;
}

static void take_in(struct pass *pass, int64_t v)
{
    pass->eviction->in_ram[v] = true;
    pass->used += pass->problem->size[v];
}

static void let_out(struct pass *pass, int64_t v)
{
    pass->eviction->in_ram[v] = false;
    pass->used -= pass->problem->size[v];
}

/* Evict until there is room for so many bytes. False if nothing more can go. */
static bool make_room(struct pass *pass, int64_t wanted)
{
    while (pass->used + wanted > pass->problem->budget) {
        count_steps(pass->tally, 1);
        find_prospects(pass->problem, pass->eviction);
        const int64_t v = cheapest(pass);
        if (v < 0) {
            return false;
        }
        let_out(pass, v);
    }
    return true;
}

/* False if there are too many events. */
static bool append(struct pass *pass, int64_t event)
{
    if (pass->length == pass->eviction->events_count) {
        return false;
    }
    pass->eviction->events[pass->length++] = event;
    return true;
}

static void push(struct pass *pass, int64_t node)
{
    pass->eviction->stack[pass->depth] = node;
    pass->eviction->gathered[pass->depth] = 0;
    pass->depth++;
}

/* Compute the node on top of the stack, whose inputs are there. False if the pass fails. */
static bool compute(struct pass *pass)
{
    const struct problem *problem = pass->problem;
    struct eviction *eviction = pass->eviction;
    const int64_t j = eviction->stack[pass->depth - 1];
    int64_t wanted = problem->workspace[j];
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        eviction->pinned[v]++;
        wanted += eviction->in_ram[v] ? 0 : problem->size[v];
    }
    if (!make_room(pass, wanted) || !append(pass, j)) {
        return false;
    }
    eviction->computed[j] = true;
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        eviction->pinned[v]--;
        if (!eviction->in_ram[v]) {
            take_in(pass, v);
        }
    }
    for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
        const int64_t v = problem->input_value[k];
        eviction->pinned[v]--;
        if (problem->taken[v]) {
            let_out(pass, v);
        }
    }
    pass->depth--;
    return true;
}

/* Go on with the node on top of the stack: pin its next input, restore it first, or compute. False if the pass
 * fails. */
static bool step(struct pass *pass)
{
    const struct problem *problem = pass->problem;
    struct eviction *eviction = pass->eviction;
    const int64_t top = pass->depth - 1;
    const int64_t j = eviction->stack[top];
    const int64_t last = problem->input_start[j + 1] - 1 - eviction->gathered[top];
    if (last < problem->input_start[j]) {
        return compute(pass);
    }
    const int64_t v = problem->input_value[last];
    if (eviction->in_ram[v] || problem->size[v] == 0) {
        eviction->pinned[v]++;
        eviction->gathered[top]++;
        return true;
    }
    count_steps(pass->tally, 1);
    find_prospects(problem, eviction);
    if (!problem->pageable[v] || eviction->cost[v] < page_energy(problem, eviction, v)) {
        if (!problem->recomputable[problem->producer[v]]) {
            return false;
        }
        push(pass, problem->producer[v]);
        return true;
    }
    if (!make_room(pass, problem->size[v]) || !append(pass, nodes_of(problem) + v)) {
        return false;
    }
    take_in(pass, v);
    eviction->paged[v] = true;
    return true;
}

int64_t eviction_pass(const struct problem *problem, struct eviction *eviction, volatile int64_t *tally)
{
    struct pass pass = {problem, eviction, tally, 0, 0, 0, 0};
    for (pass.now = 0; pass.now < nodes_of(problem); pass.now++) {
        push(&pass, eviction->order[pass.now]);
        while (pass.depth > 0) {
            if (is_used_up(tally) || !step(&pass)) {
                return -1;
            }
        }
    }
    return pass.length;
}
