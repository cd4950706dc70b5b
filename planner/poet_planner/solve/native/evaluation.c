/* SPDX-License-Identifier: Apache-2.0 */
#include "evaluation.h"
#include "minmax.h"

FIELDS(problem, PROBLEM)
FIELDS(workspace, WORKSPACE)

static const struct evaluation NO_SCHEDULE = {-1, 0.0, 0.0, 0.0};

/* Record a lifetime of v, from `place` to its last use; returns the number of lifetimes. */
static int64_t record_life(struct workspace *work, int64_t lives, int64_t v, int64_t place)
{
    work->life_value[lives] = v;
    work->life_start[lives] = place;
    work->life_end[lives] = work->last_use[v];
    work->last_use[v] = -1;
    return lives + 1;
}

/* Overflow of the evaluated sequence if the RAM is limited at event points only. The RAM at all other events becomes
 * UNCOUNTED. */
static double overflow_at_event_points(const struct problem *problem, struct workspace *work, int64_t length)
{
    const int64_t n = nodes_of(problem);
    for (int64_t j = 0; j < n; j++) {
        work->seen[j] = 0;
    }
    double overflow = 0.0;
    for (int64_t k = 0; k < length; k++) {
        const int64_t event = work->kept[k];
        if (event < n && work->seen[event] == 0 && problem->is_event_point[event]) {
            const int64_t over = work->memory[k] - problem->budget;
            overflow += (double)(over > 0 ? over : 0);
        } else {
            work->memory[k] = UNCOUNTED;
        }
        if (event < n) {
            work->seen[event] = 1;
        }
    }
    return overflow;
}

/* The values whose transfer still runs after their last use, and their bytes. */
struct leaving {
    int64_t count;
    int64_t bytes;
};

static void let_leave(const struct problem *problem, struct workspace *work, struct leaving *leaving, int64_t v)
{
    work->leaving[leaving->count] = v;
    leaving->count++;
    leaving->bytes += problem->size[v];
}

/* Let go of the values whose transfer has ended, or whose RAM is needed at place k; returns when the CPU goes on. */
static double let_go(const struct problem *problem, struct workspace *work, struct leaving *leaving, int64_t k,
                     double cpu)
{
    const int64_t event = work->kept[k];
    int64_t at = 0;
    while (at < leaving->count) {
        const int64_t v = work->leaving[at];
        const bool anew = event == nodes_of(problem) + v || event == problem->producer[v];
        if (anew || work->let_go[v] <= cpu || work->memory[k] + leaving->bytes > problem->budget) {
            cpu = max_double(cpu, work->let_go[v]);
            leaving->bytes -= problem->size[v];
            leaving->count--;
            for (int64_t rest = at; rest < leaving->count; rest++) {
                work->leaving[rest] = work->leaving[rest + 1];
            }
        } else {
            at++;
        }
    }
    return cpu;
}

/* When the CPU and the bus are free. */
struct clocks {
    double cpu;
    double bus;
};

/* Compute a node: it waits for its inputs, and for the bus if it uses that. */
static struct clocks compute(const struct problem *problem, struct workspace *work, int64_t node, struct clocks now)
{
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t v = problem->input_value[k];
        now.cpu = max_double(now.cpu, problem->taken[v] ? work->let_go[v] : work->arrives[v]);
    }
    if (!problem->uses_bus[node]) {
        now.cpu += problem->node_time[node];
        return now;
    }
    now.cpu = max_double(now.cpu, now.bus);
    now.bus = now.cpu + problem->node_time[node];
    if (problem->uses_cpu[node]) {
        now.cpu = now.bus;
        return now;
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        work->let_go[problem->input_value[k]] = now.bus;
    }
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        work->arrives[v] = now.bus;
        work->let_go[v] = now.bus;
    }
    return now;
}

/* Time of the evaluated sequence, in seconds, if transfers overlap compute. A node that uses the bus alone is one.
 *
 * A value is freed only when its transfer has ended. Until then it is among the leaving values. If their RAM is needed
 * earlier, the CPU waits. */
static double makespan(const struct problem *problem, struct workspace *work, int64_t length)
{
    const int64_t n = nodes_of(problem);
    for (int64_t k = 0; k < length; k++) {
        work->ending[k] = -1;
    }
    for (int64_t life = 0; life < work->counters[LIVES]; life++) {
        work->next_ending[life] = work->ending[work->life_end[life]];
        work->ending[work->life_end[life]] = life;
    }
    for (int64_t v = 0; v < values_of(problem); v++) {
        work->arrives[v] = 0.0;
        work->let_go[v] = 0.0;
    }
    for (int64_t j = 0; j < n; j++) {
        work->first[j] = -1;
    }
    struct clocks now = {0.0, 0.0};
    struct leaving leaving = {0, 0};
    int64_t newest = work->counters[LIVES] - 1;
    for (int64_t k = 0; k < length; k++) {
        const int64_t event = work->kept[k];
        now.cpu = let_go(problem, work, &leaving, k, now.cpu);
        if (event >= n) {
            const int64_t v = event - n;
            now.cpu = max_double(now.cpu, now.bus);
            now.bus = now.cpu + problem->in_time[v];
            work->arrives[v] = now.bus;
            work->let_go[v] = now.bus;
            newest--;
        } else {
            now = compute(problem, work, event, now);
            work->counters[STAMP]++;
            while (newest >= 0 && work->life_start[newest] == k) {
                work->stamp[work->life_value[newest]] = work->counters[STAMP];
                newest--;
            }
            for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
                if (work->paged[v] > 0 && work->first[event] < 0) {
                    now.cpu = max_double(now.cpu, now.bus);
                    now.bus = now.cpu + problem->out_time[v];
                    work->let_go[v] = now.bus;
                }
                if (work->let_go[v] > now.cpu && work->stamp[v] != work->counters[STAMP]) {
                    let_leave(problem, work, &leaving, v);
                }
            }
            work->first[event] = k;
        }
        for (int64_t life = work->ending[k]; life >= 0; life = work->next_ending[life]) {
            const int64_t v = work->life_value[life];
            if (work->let_go[v] > now.cpu) {
                let_leave(problem, work, &leaving, v);
            }
        }
    }
    return max_double(now.cpu, now.bus);
}

/* What the backward pass has counted so far. */
struct backward {
    int64_t here;    /* place of the event met last, from the end of `kept` */
    int64_t live;    /* bytes */
    int64_t waiting; /* values that are used after this place and not yet made */
    int64_t extras;
    int64_t lives;
    double energy;
    double time;
};

/* The value v is made, or paged in, at this place. */
static void made(const struct problem *problem, struct workspace *work, struct backward *pass, int64_t v)
{
    pass->lives = record_life(work, pass->lives, v, pass->here);
    pass->waiting--;
    pass->live -= problem->size[v];
}

/* Whether anything needs a compute of `node`, of which the sequence has `earlier` before this one. */
static bool is_needed(const struct problem *problem, const struct workspace *work, int64_t node, int64_t earlier)
{
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        if (work->last_use[v] >= 0) {
            return true;
        }
    }
    return earlier <= 0 && (work->seen[node] <= 0 || work->source[node] != 0);
}

/* A compute of `node` in the backward pass, if it is needed; false if there is no schedule. `memory` is the RAM there,
 * or UNCOUNTED if the event is dropped. */
static bool visit_compute(const struct problem *problem, struct workspace *work, struct backward *pass, int64_t node,
                          int64_t *memory)
{
    const int64_t earlier = work->total[node] - 1 - work->seen[node];
    if (!is_needed(problem, work, node, earlier)) {
        work->total[node]--;
        *memory = UNCOUNTED;
        return true;
    }
    work->seen[node]++;
    pass->here--;
    work->kept[pass->here] = node;
    *memory = pass->live + problem->workspace[node];
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        if (work->last_use[v] >= 0) {
            made(problem, work, pass, v);
        } else {
            *memory += problem->size[v];
        }
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (work->last_use[v] < 0) {
            work->last_use[v] = pass->here;
            pass->waiting++;
            pass->live += problem->size[v];
            *memory += problem->size[v];
        } else if (problem->taken[v]) {
            return false;
        }
    }
    pass->energy += problem->node_energy[node];
    pass->time += problem->node_time[node];
    if (earlier > 0) {
        work->extra[pass->extras++] = pass->here;
    }
    return true;
}

/* A page-in of v in the backward pass; as `visit_compute`. */
static bool visit_page_in(const struct problem *problem, struct workspace *work, struct backward *pass, int64_t v,
                          int64_t *memory)
{
    if (work->last_use[v] < 0) {
        *memory = UNCOUNTED;
        return true;
    }
    const int64_t j = problem->producer[v];
    if (work->total[j] - work->seen[j] == 0) {
        return false;
    }
    pass->here--;
    work->kept[pass->here] = nodes_of(problem) + v;
    *memory = pass->live;
    made(problem, work, pass, v);
    work->source[j] = 1;
    if (work->paged[v] == 0) {
        pass->energy += problem->out_energy[v];
        pass->time += problem->out_time[v];
    }
    work->paged[v]++;
    pass->energy += problem->in_energy[v];
    pass->time += problem->in_time[v];
    work->extra[pass->extras++] = pass->here;
    return true;
}

/* Evaluate `events` in a backward pass. `work` receives the needed events, their RAM, and the lifetimes. */
struct evaluation evaluate(const struct problem *problem, const int64_t *events, int64_t length, struct workspace *work)
{
    const int64_t n = nodes_of(problem);
    for (int64_t j = 0; j < n; j++) {
        work->total[j] = 0;
        work->seen[j] = 0;
        work->source[j] = 0;
    }
    for (int64_t v = 0; v < values_of(problem); v++) {
        work->paged[v] = 0;
        work->last_use[v] = -1;
    }
    for (int64_t k = 0; k < length; k++) {
        if (events[k] < n) {
            work->total[events[k]]++;
        }
    }
    struct backward pass = {work->kept_count, 0, 0, 0, 0, 0.0, 0.0};
    double overflow = 0.0;
    for (int64_t k = length - 1; k >= 0; k--) {
        const int64_t event = events[k];
        int64_t memory;
        const bool possible = event < n ? visit_compute(problem, work, &pass, event, &memory)
                                        : visit_page_in(problem, work, &pass, event - n, &memory);
        if (!possible) {
            return NO_SCHEDULE;
        }
        if (memory == UNCOUNTED) {
            continue;
        }
        work->memory[pass.here] = memory;
        work->live[pass.here] = pass.live;
        if (memory > problem->budget) {
            overflow += (double)(memory - problem->budget);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        if (work->seen[j] == 0 || (work->seen[j] > 1 && !problem->recomputable[j])) {
            pass.waiting++;
        }
    }
    if (pass.waiting > 0) {
        return NO_SCHEDULE;
    }
    const int64_t kept = work->kept_count - pass.here;
    for (int64_t k = 0; k < kept; k++) {
        work->kept[k] = work->kept[pass.here + k];
        work->memory[k] = work->memory[pass.here + k];
        work->live[k] = work->live[pass.here + k];
    }
    work->live[kept] = 0;
    for (int64_t k = 0; k < pass.extras; k++) {
        work->extra[k] -= pass.here;
    }
    for (int64_t k = 0; k < pass.lives; k++) {
        work->life_start[k] -= pass.here;
        work->life_end[k] -= pass.here;
    }
    if (problem->is_event_point_count > 0) {
        overflow = overflow_at_event_points(problem, work, kept);
    }
    work->counters[LIVES] = pass.lives;
    if (problem->dma) {
        pass.time = makespan(problem, work, kept);
    }
    work->counters[EXTRAS] = pass.extras;
    return (struct evaluation){kept, pass.energy, pass.time, overflow};
}

/* Record a touch of v at start[v + 1], which moves on; in the end it is where v's touches end. */
static void record_touch(struct workspace *work, int64_t v, int64_t place, bool used)
{
    const int64_t at = work->touch_start[v + 1];
    work->touch_place[at] = place;
    work->touch_live[at] = 0;
    if (used) {
        work->touch_live[at - 1] = 1;
    }
    work->touch_start[v + 1] = at + 1;
}

/* Find the touches of each value and the first compute of each node in the evaluated sequence. False if there are more
 * touches than the workspace has room for. */
bool index_touches(const struct problem *problem, struct workspace *work, int64_t length)
{
    const int64_t n = nodes_of(problem);
    const int64_t m = values_of(problem);
    int64_t *start = work->touch_start;
    for (int64_t v = 0; v < m + 2; v++) {
        start[v] = 0;
    }
    for (int64_t j = 0; j < n; j++) {
        work->first[j] = -1;
    }
    for (int64_t k = 0; k < length; k++) {
        const int64_t event = work->kept[k];
        if (event >= n) {
            start[event - n + 2]++;
            continue;
        }
        if (work->first[event] < 0) {
            work->first[event] = k;
        }
        for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
            start[v + 2]++;
        }
        for (int64_t in = problem->input_start[event]; in < problem->input_start[event + 1]; in++) {
            start[problem->input_value[in] + 2]++;
        }
    }
    for (int64_t v = 0; v < m; v++) {
        start[v + 2] += start[v + 1];
    }
    if (start[m + 1] > work->touch_place_count) {
        return false;
    }
    /* A value is in RAM after a touch if its next touch uses it. */
    for (int64_t k = 0; k < length; k++) {
        const int64_t event = work->kept[k];
        if (event >= n) {
            record_touch(work, event - n, k, false);
            continue;
        }
        for (int64_t in = problem->input_start[event]; in < problem->input_start[event + 1]; in++) {
            record_touch(work, problem->input_value[in], k, true);
        }
        for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
            record_touch(work, v, k, false);
        }
    }
    return true;
}
