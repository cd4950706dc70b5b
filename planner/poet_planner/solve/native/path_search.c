/* SPDX-License-Identifier: Apache-2.0 */
#include "path_search.h"

#include "memory_state.h"

FIELDS(open_states, OPEN_STATES)
FIELDS(path_search, PATH_SEARCH)

static bool comes_before(struct open_state one, struct open_state other)
{
    if (one.least != other.least) {
        return one.least < other.least;
    }
    if (one.order != other.order) {
        return one.order < other.order;
    }
    return one.state < other.state;
}

static struct open_state entry_at(const struct open_states *open, int64_t at)
{
    return (struct open_state){open->least[at], open->order[at], open->state[at]};
}

static void set_entry(struct open_states *open, int64_t at, struct open_state entry)
{
    open->least[at] = entry.least;
    open->order[at] = entry.order;
    open->state[at] = entry.state;
}

/* Put a state into the heap, which has room. */
void push_open(struct open_states *open, struct open_state pushed)
{
    int64_t at = open->count[0]++;
    while (at > 0) {
        const int64_t above = (at - 1) / 2;
        if (!comes_before(pushed, entry_at(open, above))) {
            break;
        }
        set_entry(open, at, entry_at(open, above));
        at = above;
    }
    set_entry(open, at, pushed);
}

/* Take the first state out of the heap, which is not empty. */
struct open_state pop_open(struct open_states *open)
{
    const struct open_state first = entry_at(open, 0);
    const int64_t count = --open->count[0];
    const struct open_state last = entry_at(open, count);
    int64_t at = 0;
    for (int64_t below = 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && comes_before(entry_at(open, below + 1), entry_at(open, below))) {
            below++;
        }
        if (!comes_before(entry_at(open, below), last)) {
            break;
        }
        set_entry(open, at, entry_at(open, below));
        at = below;
    }
    set_entry(open, at, last);
    return first;
}

/* Take the first open state to which a cheaper way is known than when it was last expanded; false if there is none. */
bool next_state(struct path_search *search, struct open_state *next)
{
    while (search->open_states->count[0] > 0) {
        *next = pop_open(search->open_states);
        if (search->energy[next->state] < search->closed[next->state]) {
            return true;
        }
    }
    return false;
}

/* Whether there is no room for another state, or for another open one. */
bool is_full(const struct path_search *search)
{
    return search->count[0] == search->rows_rows || search->open_states->count[0] == search->open_states->state_count;
}

/* The number of the state in a row; -1: it has not been met. */
int64_t number_of(const struct path_search *search, const int64_t *row)
{
    return search->slots[slot_of(search->slots, search->slots_count, search->rows, row, search->rows_columns)];
}

/* The number of the state in the row for the next one, or of a known state that dominates it: one value less in W and
 * no more energy spent. -1: none. */
int64_t known_state(const struct problem *problem, struct path_search *search, double spent)
{
    int64_t *const row = row_of(search, search->count[0]);
    const int64_t known = number_of(search, row);
    if (known >= 0) {
        return known;
    }
    int64_t *const held = row + values_at(problem);
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (problem->size[v] > 0 && has(held, v)) {
            take_out(held, v);
            const int64_t other = number_of(search, row);
            put(held, v);
            if (other >= 0 && search->energy[other] <= spent) {
                return other;
            }
        }
    }
    return -1;
}

/* Count the state in the row for the next one as met; returns its number. */
int64_t add_state(struct path_search *search, double to_go)
{
    const int64_t state = search->count[0]++;
    const int64_t slot =
        slot_of(search->slots, search->slots_count, search->rows, row_of(search, state), search->rows_columns);
    search->slots[slot] = state;
    search->to_go[state] = to_go;
    return state;
}

/* Note a way to a state, if it is the cheapest so far, and open the state if its paths may cost less than the limit.
 *
 * A state whose paths seem to cost less than was proven goes first, the cheapest way first of all. So none is expanded
 * again and again (algorithm B, Martelli 1977). */
void reach(struct path_search *search, int64_t to, double spent, int64_t from, int64_t move, struct range paths)
{
    if (spent >= search->energy[to]) {
        return;
    }
    search->energy[to] = spent;
    search->parent[to] = from;
    search->arrived_by[to] = move;
    const double least = spent + search->to_go[to];
    if (least < paths.least) {
        push_open(search->open_states, (struct open_state){paths.least, spent - 2.0 * paths.least, to});
    } else if (least < paths.limit) {
        push_open(search->open_states, (struct open_state){least, -spent, to});
    }
}
