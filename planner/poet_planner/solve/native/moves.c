/* SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include <math.h>

#include "minmax.h"
#include "random.h"

enum {
    UNPAGE_TRIES = 4,   /* extra events drawn until one is a page-in */
    EXCHANGE_TRIES = 8, /* extra events drawn until one is of the other kind */
    MOST_LIVES = 500    /* lifetimes examined for an idle value */
};

static const double KEPT = 0.3;     /* probability that an input is kept in RAM instead of being restored */
static const double CHEAPER = 0.75; /* probability that a value comes back the cheaper way */
static const double WHOLE = 0.25;   /* probability that a restore keeps nothing and always takes the cheaper way, which
                                     * makes long chains */
static const double WORST = 0.3;    /* probability that the largest overflow is split, instead of any */

static double compute_cost(const struct move *move, int64_t j)
{
    return move->problem->node_energy[j] + move->per_second * move->problem->node_time[j];
}

static double page_cost(const struct move *move, int64_t v)
{
    const struct problem *problem = move->problem;
    const double cost = problem->in_energy[v] + move->per_second * problem->in_time[v];
    if (move->work->paged[v] != 0) {
        return cost;
    }
    return cost + problem->out_energy[v] + move->per_second * problem->out_time[v];
}

/* Cost of restoring v the cheaper way if its inputs are in RAM; infinite if it cannot be restored. */
static double restore_cost(const struct move *move, int64_t v)
{
    const int64_t j = move->problem->producer[v];
    double cost = move->problem->recomputable[j] ? compute_cost(move, j) : (double)INFINITY;
    if (move->problem->pageable[v]) {
        const double paging = page_cost(move, v);
        cost = paging < cost ? paging : cost;
    }
    return cost;
}

/* Whether to page v in instead of computing it; the cheaper way is chosen with probability `cheaper`. */
static bool pages(const struct move *move, int64_t v, double cheaper)
{
    const int64_t j = move->problem->producer[v];
    if (!move->problem->pageable[v]) {
        return false;
    }
    if (!move->problem->recomputable[j]) {
        return true;
    }
    const bool paging_is_cheaper = page_cost(move, v) <= compute_cost(move, j);
    return paging_is_cheaper == (uniform(move->work) < cheaper);
}

/* Whether v can come back: by a page-in, or by a compute. */
static bool can_restore(const struct move *move, int64_t v, bool paged)
{
    return paged || move->problem->recomputable[move->problem->producer[v]];
}

static int64_t event_restoring(const struct move *move, int64_t v, bool paged)
{
    return paged ? nodes_of(move->problem) + v : move->problem->producer[v];
}

/* Append to work->inserted, which has `count` events, what restores the inputs of a compute; returns the new count.
 *
 * Inputs that are in RAM at `key`, or have the stamp, need nothing; others are kept with probability `kept`. */
static int64_t restore_inputs(const struct move *move, int64_t key, int64_t node, int64_t count, double kept,
                              double cheaper)
{
    const struct problem *problem = move->problem;
    struct workspace *work = move->work;
    const int64_t stamp = work->counters[STAMP];
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        work->stamp[v] = stamp;
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t u = problem->input_value[k];
        if (work->stamp[u] == stamp) {
            continue;
        }
        work->stamp[u] = stamp;
        if (count >= work->inserted_count || live_before(work, move->delta, key, u)) {
            continue;
        }
        if (uniform(work) < kept && !problem->taken[u]) {
            continue;
        }
        const bool paged = pages(move, u, cheaper);
        if (can_restore(move, u, paged)) {
            work->inserted[count++] = event_restoring(move, u, paged);
        }
    }
    return count;
}

/* Bring v back right before `key`, by a page-in if `paged`. False if this takes too many edits.
 *
 * Inputs that are not in RAM there are restored too, or kept in RAM until then, at random. Those taken over cannot be
 * kept. */
static bool restore(const struct move *move, int64_t key, int64_t v, bool paged)
{
    struct workspace *work = move->work;
    work->counters[STAMP]++;
    work->inserted[0] = event_restoring(move, v, paged);
    work->stamp[v] = work->counters[STAMP];
    int64_t count = 1;
    const bool whole = uniform(work) < WHOLE;
    const double kept = whole ? 0.0 : KEPT;
    const double cheaper = whole ? 1.0 : CHEAPER;
    for (int64_t k = 0; k < count && count < work->inserted_count; k++) {
        if (work->inserted[k] < nodes_of(move->problem)) {
            count = restore_inputs(move, key, work->inserted[k], count, kept, cheaper);
        }
    }
    for (int64_t k = count - 1; k >= 0; k--) {
        if (!put_in(move->delta, key, work->inserted[k])) {
            return false;
        }
        /* An event that was put in has a new key, one higher. */
        key += !is_old(key);
    }
    return true;
}

/* The events met so far whose RAM exceeds the budget: how many, one of them at random, and the worst. */
struct overflows {
    int64_t count;
    int64_t key;
    int64_t worst;
    int64_t most;
};

static void meet(const struct move *move, struct overflows *met, int64_t key, int64_t memory)
{
    if (memory <= move->problem->budget) {
        return;
    }
    met->count++;
    if (below(move->work, met->count) == 0) {
        met->key = key;
    }
    if (memory > met->most) {
        met->worst = key;
        met->most = memory;
    }
}

/* Key of an event whose RAM exceeds the budget, the worst one or any; -1 if there is none. */
static int64_t find_overflow(const struct move *move)
{
    const struct delta_evaluation *delta = move->delta;
    struct overflows met = {0, -1, -1, move->problem->budget};
    for (int64_t k = 0; k < move->length; k++) {
        meet(move, &met, key_at(k), delta->memory[k]);
    }
    for (int64_t e = 0; e < delta->counters[EDITS]; e++) {
        if (delta->edit_event[e] != LEFT_OUT) {
            meet(move, &met, delta->edit_key[e], delta->edit_memory[e]);
        }
    }
    return met.count > 0 && uniform(move->work) < WORST ? met.worst : met.key;
}

/* The event at a key of the edited sequence. */
static int64_t event_at(const struct move *move, int64_t key)
{
    const struct delta_evaluation *delta = move->delta;
    if (!is_old(key)) {
        for (int64_t e = 0; e < delta->counters[EDITS]; e++) {
            if (delta->edit_key[e] == key) {
                return delta->edit_event[e];
            }
        }
    }
    return move->work->kept[place_of(key)];
}

/* Stamp the values that cannot be dropped at `key`: those used or made there, and those that are not there any more. */
static void stamp_busy(const struct move *move, int64_t key)
{
    const struct problem *problem = move->problem;
    const struct delta_evaluation *delta = move->delta;
    struct workspace *work = move->work;
    const int64_t n = nodes_of(problem);
    const int64_t event = event_at(move, key);
    const int64_t busy = ++work->counters[STAMP];
    if (event < n) {
        for (int64_t k = problem->input_start[event]; k < problem->input_start[event + 1]; k++) {
            work->stamp[problem->input_value[k]] = busy;
        }
        for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
            work->stamp[v] = busy;
        }
    } else {
        work->stamp[event - n] = busy;
    }
    for (int64_t c = 0; c < delta->counters[CHANGES]; c++) {
        if (delta->change_sign[c] < 0 && delta->change_close[c] < key && key < delta->change_open[c]) {
            work->stamp[delta->change_value[c]] = busy;
        }
    }
}

/* The value of change k, or of lifetime k after the changes, if it is in RAM before and after `key`; else -1. */
static int64_t live_at(const struct move *move, int64_t key, int64_t k)
{
    const struct workspace *work = move->work;
    const struct delta_evaluation *delta = move->delta;
    const int64_t changes = delta->counters[CHANGES];
    if (k < changes) {
        const bool live = delta->change_sign[k] > 0 && delta->change_close[k] < key && key < delta->change_open[k];
        return live ? delta->change_value[k] : -1;
    }
    const int64_t life = k - changes;
    const int64_t place = place_of(key);
    const int64_t earliest = is_old(key) ? place + 1 : place;
    return work->life_start[life] < place && work->life_end[life] >= earliest ? work->life_value[life] : -1;
}

/* A value that is in RAM at `key` but not used there, preferably large and cheap to restore; -1 if none is. */
static int64_t find_idle(const struct move *move, int64_t key)
{
    struct workspace *work = move->work;
    stamp_busy(move, key);
    const int64_t busy = work->counters[STAMP];
    const int64_t tries = 1 + below(work, 4);
    const int64_t changes = move->delta->counters[CHANGES];
    const int64_t count = work->counters[LIVES] + changes;
    /* Earlier ones have better chances: the changes, or else the lifetimes. */
    const int64_t offset = move->changed_first || uniform(work) < 0.5 ? 0 : changes;
    /* If there are very many lifetimes, only some are examined; all of them if those give nothing. */
    int64_t stride = 1 + work->counters[LIVES] / MOST_LIVES;
    int64_t idle = -1;
    int64_t found = 0;
    double best = -1.0;
    while (idle < 0 && stride > 0) {
        for (int64_t k = below(work, stride); k < count; k += stride) {
            const int64_t v = live_at(move, key, k + offset < count ? k + offset : k + offset - count);
            if (v < 0 || work->stamp[v] == busy || move->problem->size[v] <= 0) {
                continue;
            }
            found++;
            if (found > tries && below(work, found) >= tries) {
                continue;
            }
            const double worth = (double)move->problem->size[v] / (restore_cost(move, v) + 1e-12);
            const double score = worth * (0.5 + uniform(work));
            if (score > best) {
                best = score;
                idle = v;
            }
        }
        stride = stride > 1 ? 1 : 0;
    }
    return idle;
}

bool split_overflow(const struct move *move)
{
    const int64_t key = find_overflow(move);
    if (key < 0) {
        return false;
    }
    const int64_t v = find_idle(move, key);
    if (v < 0) {
        return false;
    }
    const bool paged = pages(move, v, CHEAPER);
    if (!can_restore(move, v, paged)) {
        return false;
    }
    const int64_t use = next_use(move->problem, move->work, move->delta, key, v);
    return use >= 0 && restore(move, use, v, paged);
}

/* Restore a random input of a random compute right before it. */
static bool split_anywhere(const struct move *move)
{
    const struct problem *problem = move->problem;
    const int64_t place = below(move->work, move->length);
    const int64_t event = move->work->kept[place];
    if (event >= nodes_of(problem)) {
        return false;
    }
    const int64_t begin = problem->input_start[event];
    const int64_t inputs = problem->input_start[event + 1] - begin;
    if (inputs == 0) {
        return false;
    }
    const int64_t v = problem->input_value[begin + below(move->work, inputs)];
    const bool paged = pages(move, v, CHEAPER);
    return can_restore(move, v, paged) && restore(move, key_at(place), v, paged);
}

/* Place of a random extra event, of which there are some. */
static int64_t any_extra(const struct move *move)
{
    return move->work->extra[below(move->work, move->work->counters[EXTRAS])];
}

/* Leave out up to `most` neighbouring extra events. */
static bool delete_extras(const struct move *move, int64_t most)
{
    struct workspace *work = move->work;
    const int64_t extras = work->counters[EXTRAS];
    if (extras == 0) {
        return false;
    }
    const int64_t begin = below(work, extras);
    const int64_t end = min_int(extras, begin + 1 + below(work, most));
    for (int64_t k = begin; k < end; k++) {
        (void)leave_out(move->delta, work->extra[k]);
    }
    return true;
}

/* Flip the extra event at `place`: a compute becomes page-ins of its values, a page-in becomes a compute. */
static bool flip(const struct move *move, int64_t place)
{
    const struct problem *problem = move->problem;
    const int64_t n = nodes_of(problem);
    const int64_t event = move->work->kept[place];
    const int64_t key = key_at(place);
    if (event >= n) {
        const int64_t v = event - n;
        return problem->recomputable[problem->producer[v]] && restore(move, key, v, false) &&
               leave_out(move->delta, place);
    }
    int64_t count = 0;
    for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
        if (problem->pageable[v]) {
            count += put_in(move->delta, key, n + v);
        }
    }
    return count > 0 && leave_out(move->delta, place);
}

/* Two flips, one each way: if RAM and time are both short, each flip alone breaks a limit. */
static bool exchange(const struct move *move)
{
    const int64_t n = nodes_of(move->problem);
    const int64_t *kept = move->work->kept;
    if (move->work->counters[EXTRAS] < 2) {
        return false;
    }
    const int64_t one = any_extra(move);
    for (int64_t tries = 0; tries < EXCHANGE_TRIES; tries++) {
        const int64_t two = any_extra(move);
        if ((kept[one] < n) != (kept[two] < n)) {
            return flip(move, one) && flip(move, two);
        }
    }
    return false;
}

/* Compute a paged value wherever it is paged in: only all of this together saves the page-out. */
static bool unpage(const struct move *move)
{
    const struct workspace *work = move->work;
    const int64_t n = nodes_of(move->problem);
    const int64_t most = min_int(work->counters[EXTRAS], UNPAGE_TRIES);
    int64_t event = -1;
    for (int64_t tries = 0; tries < most && event < n; tries++) {
        event = work->kept[any_extra(move)];
    }
    if (event < n) {
        return false;
    }
    const int64_t v = event - n;
    for (int64_t at = work->touch_start[v]; at < work->touch_start[v + 1]; at++) {
        const int64_t place = work->touch_place[at];
        if (work->kept[place] == event && !flip(move, place)) {
            return false;
        }
    }
    return true;
}

/* The earliest place for the events from `begin` to `end`, no earlier than `target`: after the first computes of what
 * they need. */
static int64_t earliest(const struct move *move, int64_t begin, int64_t end, int64_t target)
{
    const struct problem *problem = move->problem;
    const struct workspace *work = move->work;
    const int64_t n = nodes_of(problem);
    for (int64_t k = begin; k < end; k++) {
        const int64_t event = work->kept[k];
        if (event >= n) {
            const int64_t first = work->first[problem->producer[event - n]];
            target = first < begin ? max_int(target, first + 1) : target;
            continue;
        }
        for (int64_t in = problem->input_start[event]; in < problem->input_start[event + 1]; in++) {
            const int64_t first = work->first[problem->producer[problem->input_value[in]]];
            target = first < begin ? max_int(target, first + 1) : target;
        }
    }
    return target;
}

/* The latest place for the events from `begin` to `end`, no later than `target`: before what needs the values that they
 * are the first to make. */
static int64_t latest(const struct move *move, int64_t begin, int64_t end, int64_t target)
{
    const struct problem *problem = move->problem;
    const struct workspace *work = move->work;
    for (int64_t k = begin; k < end; k++) {
        const int64_t event = work->kept[k];
        if (event >= nodes_of(problem) || work->first[event] != k) {
            continue;
        }
        for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
            for (int64_t at = work->touch_start[v]; at < work->touch_start[v + 1]; at++) {
                if (work->touch_place[at] >= end) {
                    target = min_int(target, work->touch_place[at]);
                    break;
                }
            }
        }
    }
    return target;
}

bool shift(const struct move *move)
{
    struct workspace *work = move->work;
    const int64_t length = move->length;
    const int64_t size = uniform(work) < 0.5 ? 1 : 1 + below(work, 6);
    if (length <= size) {
        return false;
    }
    int64_t begin = below(work, length - size + 1);
    if (uniform(work) < 0.5 && work->counters[EXTRAS] > 0) {
        begin = min_int(any_extra(move), length - size);
    }
    const int64_t distance = (int64_t)exp(uniform(work) * log((double)length));
    const int64_t end = begin + size;
    const bool is_earlier = uniform(work) < 0.5;
    const int64_t target = is_earlier ? earliest(move, begin, end, max_int(0, begin - distance))
                                      : latest(move, begin, end, min_int(length, end + distance));
    if (is_earlier ? target >= begin : target <= end) {
        return false;
    }
    for (int64_t k = begin; k < end; k++) {
        if (!put_in(move->delta, key_at(target), work->kept[k]) || !leave_out(move->delta, k)) {
            return false;
        }
    }
    return true;
}

bool random_move(const struct move *move, double draw)
{
    if (draw < 0.3) {
        return delete_extras(move, 1);
    }
    if (draw < 0.65) {
        return shift(move);
    }
    if (draw < 0.67) {
        return unpage(move);
    }
    if (draw < MAKES_ROOM) {
        return exchange(move);
    }
    if (draw < 0.75) {
        return move->work->counters[EXTRAS] > 0 && flip(move, any_extra(move));
    }
    if (draw < 0.9) {
        return split_anywhere(move);
    }
    return delete_extras(move, 4);
}
