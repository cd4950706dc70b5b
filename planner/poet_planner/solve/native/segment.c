/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include "memory_state.h"

FIELDS(segment, SEGMENT)
FIELDS(segment_starts, SEGMENT_STARTS)

/* As a node: there is none. */
#define NOWHERE (-1)

/* One of the retained sets at the start. */
struct from_start {
    const struct segment *segment;
    const int64_t *at_start;
    int64_t *until_middle;
    int64_t *need;
    int64_t *counted;
};

static struct from_start from_start(const struct segment_starts *starts, int64_t start)
{
    const int64_t at = start * starts->at_start_columns;
    return (struct from_start){starts->segment, starts->at_start + at, starts->until_middle + at, starts->need,
                               starts->counted};
}

static int64_t value_words(const struct segment *segment)
{
    return segment->made_columns;
}

static const int64_t *needed_by(const struct segment *segment, int64_t j)
{
    return segment->needed + j * segment->needed_columns;
}

/* Turn what is needed after node j into what is needed before it. As the next one, inline: a bound does little else. */
static inline void step_before(const struct segment *segment, int64_t *need, int64_t j)
{
    const int64_t words = value_words(segment);
    const int64_t *const made = segment->made + j * words;
    const int64_t *const needed = needed_by(segment, j);
    for (int64_t word = 0; word < words; word++) {
        need[word] = (need[word] & ~made[word]) | needed[word];
    }
}

/* Whether node j makes a value that is needed and not in RAM. */
static inline bool is_missing(const struct segment *segment, int64_t j, const int64_t *need, const int64_t *in_ram)
{
    const struct problem *const problem = segment->problem;
    for (int64_t v = problem->output_start[j]; v < problem->output_start[j + 1]; v++) {
        if (has(need, v) && !has(in_ram, v)) {
            return true;
        }
    }
    return false;
}

/* Whether node j does not fit beside value v and those outputs of the start that the middle node needs. */
static bool exceeds_ram(const struct segment *segment, int64_t j, int64_t v)
{
    const struct problem *const problem = segment->problem;
    const int64_t *const needed = needed_by(segment, j);
    const int64_t *const middle = needed_by(segment, segment->middle);
    int64_t held = segment->need[j] + (has(needed, v) ? 0 : problem->size[v]);
    for (int64_t u = problem->output_start[segment->start]; u < problem->output_start[segment->start + 1]; u++) {
        if (has(middle, u) && !has(needed, u)) {
            held += problem->size[u];
        }
    }
    return held > problem->budget;
}

/* Joules of the nodes of X: those computed again for the middle node, with `in_ram` right after the start. They are
 * marked in `counted`. */
static double joules_to_middle(const struct from_start *from, const int64_t *in_ram)
{
    const struct segment *const segment = from->segment;
    double paid = 0.0;
    copy_row(needed_by(segment, segment->middle), value_words(segment), from->need);
    for (int64_t j = segment->middle - 1; j >= 0; j--) {
        if (segment->before_middle[j]) {
            step_before(segment, from->need, j);
        } else if (is_missing(segment, j, from->need, in_ram)) {
            paid += segment->energy[j];
            put(from->counted, j);
            step_before(segment, from->need, j);
        }
    }
    return paid;
}

/* `paid` and the joules of the nodes of Y, which are marked in `counted`. */
static double and_after_middle(const struct from_start *from, const int64_t *row, double paid)
{
    const struct segment *const segment = from->segment;
    copy_row(row + values_at(segment->problem), value_words(segment), from->need);
    for (int64_t j = nodes_of(segment->problem) - 1; j >= 0; j--) {
        if (segment->after_middle[j] && has(row, j)) {
            step_before(segment, from->need, j);
        } else if (is_missing(segment, j, from->need, segment->beside_middle)) {
            paid += segment->energy[j];
            put(from->counted, j);
            step_before(segment, from->need, j);
        }
    }
    return paid;
}

/* A lower bound on the cost that remains from a state, in joules above E0. RAM counts at the middle node alone. */
static double lower_bound(const struct from_start *from, const int64_t *row)
{
    const struct segment *const segment = from->segment;
    const int64_t node_words = values_at(segment->problem);
    double paid = 0.0;
    for (int64_t word = 0; word < node_words; word++) {
        from->counted[word] = 0;
    }
    if (segment->middle != NOWHERE && has(row, segment->middle)) {
        paid = and_after_middle(from, row, joules_to_middle(from, from->until_middle));
    }
    copy_row(row + node_words, value_words(segment), from->need);
    for (int64_t j = nodes_of(segment->problem) - 1; j >= 0; j--) {
        if (segment->inside[j] && has(row, j)) {
            step_before(segment, from->need, j);
        } else if (is_missing(segment, j, from->need, from->at_start)) {
            if (!has(from->counted, j)) {
                paid += segment->energy[j];
            }
            step_before(segment, from->need, j);
        }
    }
    return paid;
}

/* Write a lower bound for each end and each start into `least`, until the tally, of such bounds, is used up. */
void lower_bounds(const struct segment_starts *starts, const int64_t *ends, int64_t end_count, double *least,
                  volatile int64_t *tally)
{
    const int64_t count = starts->at_start_rows;
    const int64_t words = values_at(starts->segment->problem) + value_words(starts->segment);
    for (int64_t i = 0; i < end_count && !is_used_up(tally); i++) {
        count_steps(tally, count);
        for (int64_t k = 0; k < count; k++) {
            const struct from_start from = from_start(starts, k);
            least[i * count + k] = lower_bound(&from, ends + i * words);
        }
    }
}

/* Evict from `kept` the inputs of the middle node that do not fit beside node j, which is computed in between. */
static void evict_beside(const struct segment *segment, int64_t j, int64_t *kept)
{
    const struct problem *const problem = segment->problem;
    const int64_t middle = segment->middle;
    for (int64_t k = problem->input_start[middle]; k < problem->input_start[middle + 1]; k++) {
        const int64_t v = problem->input_value[k];
        if (problem->size[v] > 0 && problem->producer[v] != segment->start && has(kept, v) &&
            exceeds_ram(segment, j, v)) {
            take_out(kept, v);
        }
    }
}

/* Find which of the values in RAM right after the start can stay there until the middle node. */
static void keep_from_start(const struct from_start *from)
{
    const struct segment *const segment = from->segment;
    const int64_t words = value_words(segment);
    int64_t *const need = from->need;
    copy_row(from->at_start, words, from->until_middle);
    if (segment->start == NOWHERE || segment->middle == NOWHERE) {
        return;
    }
    copy_row(needed_by(segment, segment->middle), words, need);
    for (int64_t j = segment->middle - 1; j >= 0; j--) {
        if (segment->before_middle[j] || is_missing(segment, j, need, from->at_start)) {
            step_before(segment, need, j);
            evict_beside(segment, j, from->until_middle);
        }
    }
    const double evicted = joules_to_middle(from, from->until_middle);
    if (evicted - joules_to_middle(from, from->at_start) > segment->energy[segment->start]) {
        copy_row(from->at_start, words, from->until_middle);
    }
}

/* Find for each retained set which of the values can stay in RAM until the middle node (see `segment_starts`). */
void keep_until_middle(const struct segment_starts *starts)
{
    for (int64_t start = 0; start < starts->at_start_rows; start++) {
        const struct from_start from = from_start(starts, start);
        keep_from_start(&from);
    }
}

/* Whether N is empty and W in RAM right after the start. */
static bool is_at_start(const struct from_start *from, const int64_t *row)
{
    const struct problem *const problem = from->segment->problem;
    const int64_t *const held = row + values_at(problem);
    int64_t left = 0;
    for (int64_t word = 0; word < value_words(from->segment); word++) {
        left |= held[word] & ~from->at_start[word];
    }
    return left == 0 && is_goal(problem, row);
}

/* Whether the first compute of node j, or another one, may have led to a state, which has `bytes` in W. */
static bool is_possible(const struct segment *segment, const int64_t *row, int64_t bytes, int64_t j, bool again)
{
    const struct problem *const problem = segment->problem;
    const int64_t words = values_at(problem);
    const int64_t *const held = row + words;
    const bool may = again ? (has(row, j) || !segment->inside[j]) && is_output_held(problem, held, j)
                           : has(row, j) && can_leave(segment->users + j * words, row, words);
    return may && ram_allows(problem, held, bytes, j);
}

/* Compute node j right before a state, whose path costs `least` at least. */
static void follow(const struct from_start *from, struct path_search *search, struct open_state state, int64_t j,
                   bool again, double limit)
{
    const struct segment *const segment = from->segment;
    const struct problem *const problem = segment->problem;
    int64_t *const row = row_of(search, search->count[0]);
    copy_row(row_of(search, state.state), search->rows_columns, row);
    uncompute(problem, row + values_at(problem), j);
    double spent = search->energy[state.state];
    if (again) {
        spent += segment->energy[j];
    } else {
        take_out(row, j);
    }
    force_moves(problem, segment->users, segment->deferrable, row);
    int64_t to = known_state(problem, search, spent);
    if (to < 0) {
        const double to_go = max_double(state.least - spent, lower_bound(from, row));
        if (spent + to_go >= limit) {
            return;
        }
        to = add_state(search, to_go);
    }
    reach(search, to, spent, state.state, again ? nodes_of(problem) + j : j, (struct range){0.0, limit});
}

/* Compute each node right before a state, if that is possible; false if there is no room for more states, or no step is
 * left.
 */
static bool expand(const struct from_start *from, struct path_search *search, struct open_state state, double limit,
                   volatile int64_t *tally)
{
    const struct problem *const problem = from->segment->problem;
    const int64_t *const row = row_of(search, state.state);
    const int64_t bytes = bytes_held(problem, row + values_at(problem));
    for (int64_t move = 0; move < 2 * nodes_of(problem); move++) {
        const bool again = move >= nodes_of(problem);
        const int64_t j = again ? move - nodes_of(problem) : move;
        if (!is_possible(from->segment, row, bytes, j, again)) {
            continue;
        }
        if (is_full(search) || is_used_up(tally)) {
            return false;
        }
        count_steps(tally, 1);
        follow(from, search, state, j, again, limit);
    }
    return true;
}

/* A* from `end`, the state right before the next bottleneck node, to the start.
 *
 * A move is the number of a node for a first compute, and n more for a recomputation. A step of the tally is a move
 * that is tried. */
struct segment_path search_segment(const struct segment_starts *starts, int64_t start, const int64_t *end, double limit,
                                   struct path_search *search, volatile int64_t *tally)
{
    const struct segment *const segment = starts->segment;
    const struct from_start from = from_start(starts, start);
    copy_row(end, search->rows_columns, search->rows);
    force_moves(segment->problem, segment->users, segment->deferrable, search->rows);
    const int64_t first = add_state(search, lower_bound(&from, search->rows));
    reach(search, first, 0.0, -1, -1, (struct range){0.0, limit});
    struct open_state next;
    while (next_state(search, &next)) {
        search->closed[next.state] = search->energy[next.state];
        if (is_at_start(&from, row_of(search, next.state))) {
            return (struct segment_path){true, next.least, next.state};
        }
        if (!expand(&from, search, next, limit, tally)) {
            return (struct segment_path){false, next.least, -1};
        }
    }
    return (struct segment_path){true, limit, -1};
}
