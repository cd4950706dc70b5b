/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_evaluation.h"

#include <string.h>

#include "minmax.h"

FIELDS(delta_evaluation, DELTA_EVALUATION)

void clear_edits(const struct workspace *work, struct delta_evaluation *delta, int64_t length)
{
    delta->counters[EDITS] = 0;
    delta->counters[CHANGES] = 0;
    memcpy(delta->memory, work->memory, (size_t)length * sizeof *delta->memory);
}

/* Assign keys to `edit` and the later edits at its place. False if they are too many for one place. */
static bool assign_keys(struct delta_evaluation *delta, int64_t edit)
{
    const int64_t count = delta->counters[EDITS];
    if (edit == count) {
        return true;
    }
    const int64_t place = delta->edit_place[edit];
    for (int64_t e = edit; e < count && delta->edit_place[e] == place; e++) {
        if (delta->edit_event[e] == LEFT_OUT) {
            delta->edit_key[e] = key_at(place);
        } else if (e > 0 && delta->edit_place[e - 1] == place) {
            delta->edit_key[e] = delta->edit_key[e - 1] + 1;
            if (is_old(delta->edit_key[e])) {
                return false;
            }
        } else {
            delta->edit_key[e] = place * PER_PLACE;
        }
    }
    return true;
}

static void move_edit(struct delta_evaluation *delta, int64_t from, int64_t to)
{
    delta->edit_place[to] = delta->edit_place[from];
    delta->edit_event[to] = delta->edit_event[from];
    delta->edit_key[to] = delta->edit_key[from];
}

static bool add_edit(struct delta_evaluation *delta, int64_t key, int64_t place, int64_t event)
{
    const int64_t count = delta->counters[EDITS];
    if (count == delta->edit_place_count) {
        return false;
    }
    int64_t e = count;
    while (e > 0 && delta->edit_key[e - 1] >= key) {
        move_edit(delta, e - 1, e);
        e--;
    }
    delta->edit_place[e] = place;
    delta->edit_event[e] = event;
    delta->counters[EDITS] = count + 1;
    return assign_keys(delta, e);
}

bool leave_out(struct delta_evaluation *delta, int64_t place)
{
    return add_edit(delta, key_at(place), place, LEFT_OUT);
}

bool put_in(struct delta_evaluation *delta, int64_t key, int64_t event)
{
    return add_edit(delta, key, place_of(key), event);
}

void take_back(struct delta_evaluation *delta, int64_t edit)
{
    delta->counters[EDITS]--;
    for (int64_t e = edit; e < delta->counters[EDITS]; e++) {
        move_edit(delta, e + 1, e);
    }
    (void)assign_keys(delta, edit);
}

void copy_edits(const struct delta_evaluation *delta, struct delta_evaluation *other)
{
    const size_t bytes = (size_t)delta->counters[EDITS] * sizeof *delta->edit_key;
    other->counters[EDITS] = delta->counters[EDITS];
    memcpy(other->edit_place, delta->edit_place, bytes);
    memcpy(other->edit_event, delta->edit_event, bytes);
    memcpy(other->edit_key, delta->edit_key, bytes);
}

int64_t write_edited(struct workspace *work, const struct delta_evaluation *delta, int64_t length)
{
    const int64_t room = work->candidate_count;
    int64_t *candidate = work->candidate;
    int64_t at = 0;
    int64_t k = 0;
    for (int64_t e = 0; e < delta->counters[EDITS]; e++) {
        const int64_t place = delta->edit_place[e];
        if (at + place - k + 1 > room) {
            return -1;
        }
        while (k < place) {
            candidate[at++] = work->kept[k++];
        }
        if (delta->edit_event[e] == LEFT_OUT) {
            k++;
        } else {
            candidate[at++] = delta->edit_event[e];
        }
    }
    if (at + length - k > room) {
        return -1;
    }
    while (k < length) {
        candidate[at++] = work->kept[k++];
    }
    return at;
}

/* Index of v's last touch before `place`; one less than that of its first touch if there is none. */
static int64_t last_touch(const struct workspace *work, int64_t v, int64_t place)
{
    int64_t low = work->touch_start[v];
    int64_t high = work->touch_start[v + 1];
    while (low < high) {
        const int64_t middle = (low + high) >> 1;
        if (work->touch_place[middle] < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

/* 1 if v is in RAM just before `place` in the old sequence, else 0. */
static int64_t is_live(const struct workspace *work, int64_t v, int64_t place)
{
    const int64_t at = last_touch(work, v, place);
    return at >= work->touch_start[v] ? work->touch_live[at] : 0;
}

bool live_before(const struct workspace *work, const struct delta_evaluation *delta, int64_t key, int64_t v)
{
    int64_t live = is_live(work, v, place_of(key));
    for (int64_t c = 0; c < delta->counters[CHANGES]; c++) {
        if (delta->change_value[c] == v && delta->change_close[c] < key && key <= delta->change_open[c]) {
            live += delta->change_sign[c];
        }
    }
    return live > 0;
}

static bool reads(const struct problem *problem, int64_t node, int64_t v)
{
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        if (problem->input_value[k] == v) {
            return true;
        }
    }
    return false;
}

int64_t next_use(const struct problem *problem, const struct workspace *work, const struct delta_evaluation *delta,
                 int64_t key, int64_t v)
{
    int64_t found = -1;
    for (int64_t at = work->touch_start[v]; at < work->touch_start[v + 1] && found < 0; at++) {
        const int64_t place = work->touch_place[at];
        if (key_at(place) > key && delta->memory[place] != DROPPED) {
            found = key_at(place);
        }
    }
    for (int64_t e = 0; e < delta->counters[EDITS]; e++) {
        if (found >= 0 && delta->edit_key[e] > found) {
            break;
        }
        const int64_t event = delta->edit_event[e];
        const bool is_compute = event >= 0 && event < nodes_of(problem);
        if (delta->edit_key[e] > key && is_compute && delta->edit_memory[e] != DROPPED && reads(problem, event, v)) {
            return delta->edit_key[e];
        }
    }
    return found;
}

/* Whether the RAM has room for v from its last touch until `place`, where `freed` bytes are free before. */
static bool room(const struct problem *problem, const struct workspace *work, const struct delta_evaluation *delta,
                 int64_t v, int64_t place, int64_t freed)
{
    const int64_t at = last_touch(work, v, place);
    if (at < work->touch_start[v]) {
        return false;
    }
    if (problem->taken[v] && work->kept[work->touch_place[at]] == problem->use_node[problem->use_start[v]]) {
        return false;
    }
    const int64_t most = problem->budget - problem->size[v] + freed;
    for (int64_t k = place - 1; k > work->touch_place[at]; k--) {
        if (delta->memory[k] > most) {
            return false;
        }
    }
    return true;
}

bool room_for(const struct problem *problem, const struct workspace *work, const struct delta_evaluation *delta,
              int64_t place)
{
    if (delta->memory[place] == DROPPED) {
        return false;
    }
    const int64_t n = nodes_of(problem);
    const int64_t event = work->kept[place];
    if (event >= n) {
        return room(problem, work, delta, event - n, place, 0);
    }
    int64_t freed = 0;
    for (int64_t k = problem->input_start[event]; k < problem->input_start[event + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (is_live(work, v, place + 1) == 0) {
            freed += problem->size[v];
        }
    }
    for (int64_t v = problem->output_start[event]; v < problem->output_start[event + 1]; v++) {
        if (is_live(work, v, place + 1) > 0 && !room(problem, work, delta, v, place, freed)) {
            return false;
        }
    }
    return true;
}

/* A backward pass over the edited sequence. */
struct pass {
    const struct problem *problem;
    const struct workspace *work;
    struct delta_evaluation *delta;
    int64_t edit;    /* the last edit before the event that is visited; -1 if there is none */
    int64_t changed; /* number of changed values */
    int64_t nodes;   /* number of delta->nodes */
    int64_t pending; /* number of delta->pending */
    int64_t values;  /* number of delta->values */
    int64_t bytes;   /* by which the RAM differs */
    int64_t kept;    /* how often a value that is taken over would have to stay */
};

/* Key of the next visit: an edit, a touch of a changed value, or a pending first compute; -1 if there is none. */
static int64_t next_key(const struct pass *pass)
{
    const struct workspace *work = pass->work;
    const struct delta_evaluation *delta = pass->delta;
    int64_t key = pass->edit >= 0 ? delta->edit_key[pass->edit] : -1;
    for (int64_t k = 0; k < pass->changed; k++) {
        const int64_t at = delta->touch[k];
        if (at >= work->touch_start[delta->changed[k]]) {
            key = max_int(key, key_at(work->touch_place[at]));
        }
    }
    for (int64_t k = 0; k < pass->pending; k++) {
        key = max_int(key, delta->pending[k]);
    }
    return key;
}

/* Add `more` bytes to the RAM at some old events; returns the increase of the overflow. */
static int64_t add_memory(const struct problem *problem, int64_t *memory, int64_t begin, int64_t end, int64_t more)
{
    const int64_t budget = problem->budget;
    int64_t over = 0;
    for (int64_t k = begin; k < end; k++) {
        const int64_t now = memory[k] + more;
        over += max_int(now, budget) - max_int(memory[k], budget);
        memory[k] = now;
    }
    return over;
}

static int64_t excess(const struct problem *problem, int64_t memory)
{
    return memory > problem->budget ? memory - problem->budget : 0;
}

/* To the left of `key`, the presence of v in RAM differs by `sign`. */
static void set_change(struct pass *pass, int64_t v, int64_t sign, int64_t key)
{
    struct delta_evaluation *delta = pass->delta;
    const int64_t now = delta->sign[v];
    if (now == 0 && sign == 0) {
        return;
    }
    if (now == 0) {
        delta->changed[pass->changed] = v;
        delta->slot[v] = pass->changed;
        pass->changed++;
    }
    const int64_t k = delta->slot[v];
    if (now != sign) {
        pass->bytes += (sign - now) * pass->problem->size[v];
        delta->sign[v] = sign;
        if (now != 0) {
            delta->change_close[delta->change[k]] = key;
        }
        if (sign != 0) {
            const int64_t c = delta->counters[CHANGES]++;
            delta->change_value[c] = v;
            delta->change_sign[c] = sign;
            delta->change_open[c] = key;
            delta->change_close[c] = -1;
            delta->change[k] = c;
        }
    }
    if (sign != 0) {
        delta->touch[k] = last_touch(pass->work, v, place_of(key));
        return;
    }
    pass->changed--;
    const int64_t last = pass->changed;
    delta->changed[k] = delta->changed[last];
    delta->change[k] = delta->change[last];
    delta->touch[k] = delta->touch[last];
    delta->slot[delta->changed[k]] = k;
}

/* Let the pass visit the first compute of node j, if it is before `key`. */
static void watch(struct pass *pass, int64_t j, int64_t key)
{
    struct delta_evaluation *delta = pass->delta;
    if (delta->listed[j]) {
        return;
    }
    delta->listed[j] = true;
    delta->nodes[pass->nodes++] = j;
    const int64_t first = key_at(pass->work->first[j]);
    if (first < key) {
        delta->pending[pass->pending++] = first;
    }
}

/* Count `more` further computes of node j. */
static void count_compute(struct pass *pass, int64_t j, int64_t more, int64_t key)
{
    pass->delta->computes[j] += more;
    watch(pass, j, key);
}

/* Count `more` further page-ins of value v. */
static void count_page(struct pass *pass, int64_t v, int64_t more, int64_t key)
{
    struct delta_evaluation *delta = pass->delta;
    if (delta->value_at[v] < 0) {
        delta->value_at[v] = pass->values;
        delta->values[pass->values++] = v;
    }
    delta->pages[v] += more;
    watch(pass, pass->problem->producer[v], key);
}

/* The first compute at `key` is visited now. */
static void visited(struct pass *pass, int64_t key)
{
    int64_t *pending = pass->delta->pending;
    for (int64_t k = 0; k < pass->pending; k++) {
        if (pending[k] == key) {
            pass->pending--;
            pending[k] = pending[pass->pending];
            return;
        }
    }
}

/* How often `event`, which touches v, is in the old sequence between two keys. */
static int64_t occurrences(const struct workspace *work, int64_t v, int64_t event, int64_t after, int64_t before)
{
    int64_t count = 0;
    for (int64_t at = work->touch_start[v]; at < work->touch_start[v + 1]; at++) {
        const int64_t place = work->touch_place[at];
        count += work->kept[place] == event && after < key_at(place) && key_at(place) < before;
    }
    return count;
}

/* Number of computes of j before `key` in the edited sequence. */
static int64_t computes_before(const struct pass *pass, int64_t j, int64_t key)
{
    const struct workspace *work = pass->work;
    const struct delta_evaluation *delta = pass->delta;
    const int64_t v = pass->problem->output_start[j];
    int64_t count = pass->problem->output_start[j + 1] > v ? occurrences(work, v, j, -1, key)
                                                           : (int64_t)(key_at(work->first[j]) < key);
    for (int64_t e = 0; e <= pass->edit; e++) {
        if (delta->edit_event[e] == j) {
            count++;
        } else if (delta->edit_event[e] == LEFT_OUT && work->kept[delta->edit_place[e]] == j) {
            count--;
        }
    }
    return count;
}

/* Whether a compute of j at `key` is kept though nothing reads it: the only one, or the source of page-ins. */
static bool is_required(const struct pass *pass, int64_t j, int64_t key)
{
    const int64_t begin = pass->problem->output_start[j];
    const int64_t end = pass->problem->output_start[j + 1];
    if (computes_before(pass, j, key) > 0) {
        return false;
    }
    if (begin == end || pass->delta->computes[j] + occurrences(pass->work, begin, j, key, INT64_MAX) == 0) {
        return true;
    }
    int64_t pages = 0;
    for (int64_t v = begin; v < end; v++) {
        pages += pass->delta->pages[v] + occurrences(pass->work, v, nodes_of(pass->problem) + v, key, INT64_MAX);
    }
    return pages > 0;
}

/* Visit an old compute; `removed`: it is left out. Returns as `visit_old`. */
static int64_t visit_old_compute(struct pass *pass, int64_t node, int64_t key, bool removed)
{
    const struct problem *problem = pass->problem;
    const struct workspace *work = pass->work;
    struct delta_evaluation *delta = pass->delta;
    const int64_t behind = place_of(key) + 1;
    int64_t memory = work->live[behind] + pass->bytes + problem->workspace[node];
    bool needed = false;
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        if (is_live(work, v, behind) + delta->sign[v] > 0) {
            needed = true;
        } else {
            memory += problem->size[v];
        }
    }
    if (delta->listed[node] && key == key_at(work->first[node])) {
        visited(pass, key);
    }
    const bool stays = !removed && (needed || is_required(pass, node, key));
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t u = problem->input_value[k];
        const int64_t after = is_live(work, u, behind) + delta->sign[u];
        if (after == 0) {
            memory += problem->size[u];
        } else if (stays && problem->taken[u]) {
            pass->kept++;
        }
        set_change(pass, u, stays ? 0 : after - 1, key);
    }
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        set_change(pass, v, stays ? 0 : is_live(work, v, behind) + delta->sign[v], key);
    }
    if (!stays) {
        count_compute(pass, node, -1, key);
        return DROPPED;
    }
    return delta->memory[place_of(key)] > UNCOUNTED / 2 ? memory : UNCOUNTED;
}

/* Visit an old event; `removed`: it is left out. Returns its RAM, or DROPPED if it is left out or not needed any
 * more. */
static int64_t visit_old(struct pass *pass, int64_t event, int64_t key, bool removed)
{
    const int64_t n = nodes_of(pass->problem);
    if (event < n) {
        return visit_old_compute(pass, event, key, removed);
    }
    const int64_t v = event - n;
    if (!removed && pass->delta->sign[v] == 0) {
        return pass->delta->memory[place_of(key)] + pass->bytes;
    }
    count_page(pass, v, -1, key);
    set_change(pass, v, pass->delta->sign[v] + 1, key);
    return DROPPED;
}

/* Visit a page-in that is put in; returns as `visit_new`. */
static int64_t visit_new_page_in(struct pass *pass, int64_t v, int64_t key)
{
    const int64_t place = place_of(key);
    const int64_t memory = pass->work->live[place] + pass->bytes;
    const int64_t was = is_live(pass->work, v, place);
    if (was + pass->delta->sign[v] == 0) {
        return DROPPED;
    }
    count_page(pass, v, 1, key);
    set_change(pass, v, -was, key);
    return pass->problem->is_event_point_count > 0 ? UNCOUNTED : memory;
}

/* Visit a compute that is put in; returns as `visit_new`. */
static int64_t visit_new_compute(struct pass *pass, int64_t node, int64_t key)
{
    const struct problem *problem = pass->problem;
    const struct workspace *work = pass->work;
    const struct delta_evaluation *delta = pass->delta;
    const int64_t place = place_of(key);
    int64_t memory = work->live[place] + pass->bytes + problem->workspace[node];
    bool needed = false;
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        if (is_live(work, v, place) + delta->sign[v] > 0) {
            needed = true;
        } else {
            memory += problem->size[v];
        }
    }
    if (!needed && !is_required(pass, node, key)) {
        return DROPPED;
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t u = problem->input_value[k];
        const int64_t was = is_live(work, u, place);
        if (was + delta->sign[u] == 0) {
            memory += problem->size[u];
        } else if (problem->taken[u]) {
            pass->kept++;
        }
        set_change(pass, u, 1 - was, key);
    }
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        set_change(pass, v, -is_live(work, v, place), key);
    }
    count_compute(pass, node, 1, key);
    if (problem->is_event_point_count > 0 &&
        !(problem->is_event_point[node] && computes_before(pass, node, key) == 0)) {
        return UNCOUNTED;
    }
    return memory;
}

/* Visit an event that is put in; returns its RAM, or DROPPED if nothing needs it. */
static int64_t visit_new(struct pass *pass, int64_t event, int64_t key)
{
    const int64_t n = nodes_of(pass->problem);
    return event < n ? visit_new_compute(pass, event, key) : visit_new_page_in(pass, event - n, key);
}

/* Count an event more (1) or less (-1). */
static void count_event(const struct problem *problem, struct evaluation *found, int64_t event, double more)
{
    const int64_t n = nodes_of(problem);
    found->energy += more * (event < n ? problem->node_energy[event] : problem->in_energy[event - n]);
    found->time += more * (event < n ? problem->node_time[event] : problem->in_time[event - n]);
}

/* Count the page-outs that the edited sequence has more, or less. */
static void count_page_outs(const struct pass *pass, struct evaluation *found)
{
    for (int64_t k = 0; k < pass->values; k++) {
        const int64_t v = pass->delta->values[k];
        const bool was = pass->work->paged[v] > 0;
        const bool is = pass->work->paged[v] + pass->delta->pages[v] > 0;
        const double more = (double)(is - was);
        found->energy += more * pass->problem->out_energy[v];
        found->time += more * pass->problem->out_time[v];
    }
}

/* Clear the counts and the changed values of a pass. */
static void reset(const struct pass *pass)
{
    struct delta_evaluation *delta = pass->delta;
    for (int64_t k = 0; k < pass->values; k++) {
        delta->pages[delta->values[k]] = 0;
        delta->value_at[delta->values[k]] = -1;
    }
    for (int64_t k = 0; k < pass->nodes; k++) {
        delta->computes[delta->nodes[k]] = 0;
        delta->listed[delta->nodes[k]] = false;
    }
    for (int64_t k = 0; k < pass->changed; k++) {
        delta->sign[delta->changed[k]] = 0;
    }
}

struct evaluation evaluate_edits(const struct problem *problem, const struct workspace *work, struct evaluation old,
                                 struct delta_evaluation *delta)
{
    memcpy(delta->memory, work->memory, (size_t)old.length * sizeof *delta->memory);
    delta->counters[CHANGES] = 0;
    struct pass pass = {problem, work, delta, delta->counters[EDITS] - 1, 0, 0, 0, 0, 0, 0};
    struct evaluation found = old;
    int64_t over = 0;
    int64_t frontier = old.length;
    while (delta->counters[CHANGES] < delta->most_changes) {
        const int64_t key = next_key(&pass);
        if (key < 0) {
            break;
        }
        const int64_t place = place_of(key);
        if (pass.bytes != 0) {
            over += add_memory(problem, delta->memory, is_old(key) ? place + 1 : place, frontier, pass.bytes);
        }
        frontier = place;
        const int64_t edit = pass.edit;
        if (is_old(key)) {
            const int64_t event = work->kept[place];
            const int64_t before = delta->memory[place];
            const bool removed = edit >= 0 && delta->edit_key[edit] == key;
            pass.edit -= removed;
            const int64_t now = visit_old(&pass, event, key, removed);
            delta->memory[place] = now;
            over += excess(problem, now) - excess(problem, before);
            /* Whoever leaves an event out twice saves it once. */
            if (now == DROPPED && before != DROPPED) {
                count_event(problem, &found, event, -1.0);
            }
        } else {
            const int64_t event = delta->edit_event[edit];
            pass.edit--;
            const int64_t now = visit_new(&pass, event, key);
            delta->edit_memory[edit] = now;
            over += excess(problem, now);
            if (now != DROPPED) {
                count_event(problem, &found, event, 1.0);
            }
        }
    }
    count_page_outs(&pass, &found);
    const bool possible =
        pass.changed == 0 && pass.edit < 0 && delta->counters[CHANGES] < delta->most_changes && pass.kept == 0;
    reset(&pass);
    found.length = possible ? 1 : -1;
    if (problem->dma) {
        found.time = 0.0;
    }
    found.overflow += (double)over;
    return found;
}
