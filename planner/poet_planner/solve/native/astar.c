/* SPDX-License-Identifier: Apache-2.0 */
#include "astar.h"

#include <math.h>

#include "memory_state.h"

FIELDS(abstraction, ABSTRACTION)
FIELDS(pattern_database, PATTERN_DATABASE)
FIELDS(exploration, EXPLORATION)

/* Kinds of moves: first compute, recomputation, page-in. */
enum { FIRST, AGAIN, PAGE };

/* A move backwards in time, of a node or, for PAGE, of a value. */
struct move {
    int64_t what;
    int64_t kind;
};

/* The moves by number: the first computes, then the recomputations, then the page-ins. */
static struct move move_at(const struct problem *problem, int64_t number)
{
    const int64_t n = nodes_of(problem);
    return number < 2 * n ? (struct move){number % n, number / n} : (struct move){number - 2 * n, PAGE};
}

/* The word of a row at which P begins, the values whose page-out is paid. */
static int64_t paid_at(const struct problem *problem)
{
    return values_at(problem) + words_of(values_of(problem));
}

/* Forget page-outs of values whose first compute lies after the state: they are not paged before it any more. */
static void forget_page_outs(const struct problem *problem, int64_t *row)
{
    int64_t *const paid = row + paid_at(problem);
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (has(paid, v) && !has(row, problem->producer[v])) {
            take_out(paid, v);
        }
    }
}

/* Write the state of the abstraction that a state looks like. */
static void abstract_state(const struct abstraction *abstraction, const int64_t *row, int64_t words, int64_t *into)
{
    const struct problem *const problem = abstraction->problem;
    copy_row(row, words, into);
    int64_t *const held = into + values_at(problem);
    int64_t *const paid = into + paid_at(problem);
    for (int64_t v = 0; v < values_of(problem); v++) {
        const int64_t first = abstraction->representative[v];
        if (problem->size[v] == 0 && has(row + values_at(problem), v)) {
            take_out(held, v);
            if (problem->size[first] > 0) {
                put(held, first);
            }
        }
        if (!abstraction->counts_page_out[v] && has(row + paid_at(problem), v)) {
            take_out(paid, v);
            if (abstraction->counts_page_out[first]) {
                put(paid, first);
            }
        }
    }
    force_moves(problem, abstraction->users, abstraction->deferrable, into);
    forget_page_outs(problem, into);
}

/* Take all page-outs out of a state; returns their energy. */
static double without_page_outs(const struct problem *problem, int64_t *row)
{
    int64_t *const paid = row + paid_at(problem);
    double energy = 0.0;
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (has(paid, v)) {
            take_out(paid, v);
            energy += problem->out_energy[v];
        }
    }
    return energy;
}

/* What remains from a state of the database at least; negative: it was never met. */
static double known_to_go(const struct pattern_database *database, const int64_t *row, int64_t words)
{
    const int64_t slot = slot_of(database->slots, database->slots_count, database->rows, row, words);
    return database->slots[slot] < 0 ? -1.0 : database->to_go[database->slots[slot]];
}

/* A lower bound on the cost that remains from a state, by coarser abstractions; `best` if that is larger.
 *
 * If an abstraction never met the state, it is asked for that without its page-outs, and then the one before it. */
static double lower_bound(const struct exploration *task, const int64_t *row, double best)
{
    int64_t *const key = task->key;
    const int64_t words = task->key_count;
    for (const struct pattern_database *known = task->database; known != NULL; known = known->coarser) {
        abstract_state(known->abstraction, row, words, key);
        const double to_go = known_to_go(known, key, words);
        if (to_go >= 0.0) {
            return max_double(best, to_go);
        }
        const double page_outs = without_page_outs(known->abstraction->problem, key);
        best = max_double(best, known_to_go(known, key, words) - page_outs);
    }
    return best;
}

/* Whether a move may have led to a state, which has `bytes` in W. */
static bool is_possible(const struct abstraction *abstraction, const int64_t *row, int64_t bytes, struct move move)
{
    const struct problem *const problem = abstraction->problem;
    const int64_t *const held = row + values_at(problem);
    const int64_t what = move.what;
    if (move.kind == PAGE) {
        return problem->pageable[what] && has(held, what);
    }
    if (!has(row, what)) {
        return false;
    }
    const int64_t words = abstraction->users_columns;
    const bool may = move.kind == FIRST ? can_leave(abstraction->users + what * words, row, words)
                                        : problem->recomputable[what] && is_output_held(problem, held, what);
    return may && ram_allows(problem, held, bytes, what);
}

/* Turn a state into that before a move; returns the cost of the move in joules above E0. */
static double make_move(const struct abstraction *abstraction, int64_t *row, struct move move)
{
    const struct problem *const problem = abstraction->problem;
    const int64_t what = move.what;
    double cost = 0.0;
    if (move.kind == PAGE) {
        int64_t *const paid = row + paid_at(problem);
        cost = problem->in_energy[what];
        if (abstraction->counts_page_out[what] && !has(paid, what)) {
            cost += problem->out_energy[what];
            put(paid, what);
        }
        take_out(row + values_at(problem), what);
    } else {
        uncompute(problem, row + values_at(problem), what);
        if (move.kind == FIRST) {
            take_out(row, what);
        } else {
            cost = problem->node_energy[what];
        }
    }
    force_moves(problem, abstraction->users, abstraction->deferrable, row);
    forget_page_outs(problem, row);
    return cost;
}

/* A state that is being expanded, whether its moves are kept as edges, and what every path costs at least. */
struct expanded {
    int64_t state;
    bool keeps_edges;
    double least;
};

/* Keep an edge of a number: in the list of those that arrive at a state. */
static void keep_edge(const struct exploration *task, int64_t number, int64_t from, int64_t to, double cost)
{
    task->edges[2 * number] = from;
    task->edges[2 * number + 1] = task->arriving[to];
    task->edge_energy[number] = cost;
    task->arriving[to] = number;
}

/* Make a move from a state. */
static void follow(const struct exploration *task, struct expanded from, struct move move, int64_t *edges)
{
    struct path_search *const search = task->search;
    const struct problem *const problem = task->abstraction->problem;
    int64_t *const row = row_of(search, search->count[0]);
    copy_row(row_of(search, from.state), search->rows_columns, row);
    const double cost = make_move(task->abstraction, row, move);
    if (cost >= task->limit) {
        return;
    }
    const double spent = search->energy[from.state] + cost;
    int64_t to = known_state(problem, search, spent);
    if (to < 0) {
        const double to_go = lower_bound(task, row, max_double(0.0, search->to_go[from.state] - cost));
        if (!task->keeps_edges && spent + to_go >= task->limit) {
            return;
        }
        to = add_state(search, to_go);
    }
    if (from.keeps_edges) {
        keep_edge(task, *edges, from.state, to, cost);
        (*edges)++;
    }
    reach(search, to, spent, from.state, 3 * move.what + move.kind, (struct range){from.least, task->limit});
}

/* Make all moves from a state; false if there is no room for them, or no step is left. */
static bool expand(const struct exploration *task, struct expanded from, int64_t *edges, volatile int64_t *tally)
{
    const struct problem *const problem = task->abstraction->problem;
    const int64_t *const row = row_of(task->search, from.state);
    const int64_t bytes = bytes_held(problem, row + values_at(problem));
    const int64_t moves = 2 * nodes_of(problem) + values_of(problem);
    for (int64_t number = 0; number < moves; number++) {
        const struct move move = move_at(problem, number);
        if (!is_possible(task->abstraction, row, bytes, move)) {
            continue;
        }
        const bool edges_full = task->keeps_edges && *edges == task->edges_rows;
        if (is_full(task->search) || edges_full || is_used_up(tally)) {
            return false;
        }
        count_steps(tally, 1);
        follow(task, from, move, edges);
    }
    return true;
}

/* A state that another one dominates: what remains from it costs no less than from the other, less `page_out`. */
struct dominance {
    int64_t by; /* the other state; -1: none */
    double page_out;
};

/* The first that dominates a state: it has a page-out less, and is as much cheaper at least.
 *
 * One with a page-out more that is cheaper dominates it, too, but as a coarser abstraction's it says less. */
static struct dominance dominance_of(const struct exploration *task, int64_t state)
{
    const struct path_search *const search = task->search;
    const struct problem *const problem = task->abstraction->problem;
    int64_t *const row = task->key;
    int64_t *const paid = row + paid_at(problem);
    copy_row(row_of(search, state), task->key_count, row);
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (has(paid, v)) {
            take_out(paid, v);
            const int64_t other = number_of(search, row);
            put(paid, v);
            if (other >= 0 && search->energy[other] + problem->out_energy[v] <= search->energy[state]) {
                return (struct dominance){other, problem->out_energy[v]};
            }
        }
    }
    return (struct dominance){-1, 0.0};
}

/* Begin with the state in which all nodes of the start are in N. */
static void begin(const struct exploration *task)
{
    struct path_search *const search = task->search;
    const struct problem *const problem = task->abstraction->problem;
    copy_row(task->start, task->start_count, search->rows);
    force_moves(problem, task->abstraction->users, task->abstraction->deferrable, search->rows);
    search->energy[0] = 0.0;
    const double to_go = lower_bound(task, search->rows, 0.0);
    push_open(search->open_states, (struct open_state){to_go, 0.0, add_state(search, to_go)});
}

/* Whether a state ends the path: no node of the goal is left in N. */
static bool ends_path(const struct exploration *task, int64_t state)
{
    return can_leave(task->goal, row_of(task->search, state), task->goal_count);
}

/* A* up to the first goal, or until no path may cost less than the limit.
 *
 * It goes on beyond the goal until there are `enough` states, whose costs that remain are known the better. A step of
 * the tally is a state that is expanded, or a move that is tried from one. */
struct explored explore_states(const struct exploration *task, volatile int64_t *tally)
{
    struct path_search *const search = task->search;
    struct explored found = {true, 0.0, -1, 0};
    begin(task);
    struct open_state next;
    while (found.complete && (found.goal < 0 || search->count[0] < task->enough) && next_state(search, &next)) {
        if (is_used_up(tally)) {
            found.complete = false;
            break;
        }
        count_steps(tally, 1);
        const int64_t at = next.state;
        const bool is_new = isinf(search->closed[at]);
        if (found.goal < 0) {
            found.lower_bound = max_double(found.lower_bound, next.least);
        }
        if (ends_path(task, at)) {
            if (found.goal < 0) {
                found.goal = at;
                found.lower_bound = search->energy[at];
            }
            continue;
        }
        const struct dominance dominance = dominance_of(task, at);
        if (dominance.by >= 0) {
            found.complete = !task->keeps_edges || found.edges < task->edges_rows;
            if (found.complete && task->keeps_edges) {
                keep_edge(task, found.edges++, at, dominance.by, -dominance.page_out);
                search->closed[at] = search->energy[at];
            }
            continue;
        }
        search->closed[at] = search->energy[at];
        const struct expanded from = {at, is_new && task->keeps_edges, found.lower_bound};
        found.complete = expand(task, from, &found.edges, tally);
        if (!found.complete && is_new) {
            search->closed[at] = INFINITY; /* some of its moves are missing */
        }
    }
    if (found.goal < 0) {
        found.lower_bound = found.complete ? task->limit : min_double(found.lower_bound, task->limit);
    }
    found.complete = found.complete || found.goal >= 0;
    return found;
}

/* Lower the costs that remain from states at least to what they are by way of others (Dijkstra).
 *
 * `to_go` has the costs that are known, and the limit elsewhere; none falls below its `floor`. */
void settle_to_go(const int64_t *arriving, const int64_t *edges, const double *edge_energy, const double *floor,
                  double *to_go, int64_t states, double limit, struct open_states *open)
{
    for (int64_t state = 0; state < states; state++) {
        if (to_go[state] < limit) {
            push_open(open, (struct open_state){to_go[state], 0.0, state});
        }
    }
    while (open->count[0] > 0) {
        const struct open_state next = pop_open(open);
        if (next.least > to_go[next.state]) {
            continue;
        }
        for (int64_t k = arriving[next.state]; k >= 0; k = edges[2 * k + 1]) {
            const int64_t earlier = edges[2 * k];
            const double least = max_double(floor[earlier], next.least + edge_energy[k]);
            if (least < to_go[earlier]) {
                to_go[earlier] = least;
                push_open(open, (struct open_state){least, 0.0, earlier});
            }
        }
    }
}
