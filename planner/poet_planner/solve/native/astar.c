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

/* Whether the row of a state of the database lies within `key`: N, W and P. */
static bool lies_within(const int64_t *row, const int64_t *key, int64_t words)
{
    for (int64_t word = 0; word < words; word++) {
        if ((row[word] & ~key[word]) != 0) {
            return false;
        }
    }
    return true;
}

/* `least` without the page-outs that are paid in `paid` and not in `within`. */
static double without_page_outs(const struct problem *problem, const int64_t *paid, const int64_t *within, double least)
{
    for (int64_t v = 0; v < values_of(problem); v++) {
        if (has(paid, v) && !has(within, v)) {
            least -= problem->out_energy[v];
        }
    }
    return least;
}

/* The group of the states of the database that have the relevant nodes of `key`; -1: none. */
static int64_t group_of(const struct exploration *task)
{
    const struct pattern_database *const database = task->database;
    const int64_t words = database->relevant_count;
    for (int64_t word = 0; word < words; word++) {
        task->nodes[word] = task->key[word] & database->relevant[word];
    }
    const int64_t slot = slot_of(database->node_slots, database->node_slots_count, database->nodes, task->nodes, words);
    return database->node_slots[slot];
}

/* A lower bound on the cost that remains from a state, by a coarser abstraction; `best` if that is larger.
 *
 * If the abstraction never met the state, states (N', W', P') within (N, W, P) are tried, the most
 * expensive first, until one gives `enough`. */
static double lower_bound(const struct exploration *task, const int64_t *row, double best, double enough)
{
    const struct pattern_database *const database = task->database;
    if (database->to_go_count == 0) {
        return best;
    }
    int64_t *const key = task->key;
    const int64_t words = task->key_count;
    abstract_state(task->coarser, row, words, key);
    const int64_t slot = slot_of(database->slots, database->slots_count, database->rows, key, words);
    if (database->slots[slot] >= 0) {
        return max_double(best, database->to_go[database->slots[slot]]);
    }
    const int64_t group = group_of(task);
    if (group < 0) {
        return best;
    }
    const struct problem *const problem = task->coarser->problem;
    const int64_t paid = paid_at(problem);
    for (int64_t state = database->group_start[group]; state < database->group_start[group + 1]; state++) {
        const double least = database->to_go[state];
        if (least <= best || best >= enough) {
            break;
        }
        const int64_t *const other = database->rows + state * words;
        if (lies_within(other, key, words)) {
            best = max_double(best, without_page_outs(problem, key + paid, other + paid, least));
        }
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

/* A state that is being expanded, and whether its moves are kept as edges. */
struct expanded {
    int64_t state;
    bool keeps_edges;
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
        const double enough = task->limit - search->energy[from.state] - cost;
        const double known = max_double(0.0, search->to_go[from.state] - cost);
        const double to_go = lower_bound(task, row, known, enough);
        if (task->first_goal && spent + to_go >= task->limit) {
            return;
        }
        to = add_state(search, to_go);
    }
    if (from.keeps_edges) {
        keep_edge(task, *edges, from.state, to, cost);
        (*edges)++;
    }
    reach(search, to, spent, from.state, 3 * move.what + move.kind, task->limit);
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
        const bool edges_full = !task->first_goal && *edges == task->edges_rows;
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

/* Begin with the state in which all nodes have yet to be computed. */
static void begin(const struct exploration *task)
{
    struct path_search *const search = task->search;
    const struct problem *const problem = task->abstraction->problem;
    for (int64_t j = 0; j < nodes_of(problem); j++) {
        put(search->rows, j);
    }
    force_moves(problem, task->abstraction->users, task->abstraction->deferrable, search->rows);
    search->energy[0] = 0.0;
    const double to_go = lower_bound(task, search->rows, 0.0, task->limit);
    push_open(search->open_states, (struct open_state){to_go, 0.0, add_state(search, to_go)});
}

/* A* over all states of paths that cost less than the limit, or up to the first goal.
 *
 * A step of the tally is a state that is expanded, or a move that is tried from one. */
struct explored explore_states(const struct exploration *task, volatile int64_t *tally)
{
    struct path_search *const search = task->search;
    const struct problem *const problem = task->abstraction->problem;
    struct explored found = {true, 0.0, -1, 0};
    double cheapest = task->limit;
    begin(task);
    struct open_state next;
    while (found.complete && found.goal < 0 && next_state(search, &next)) {
        if (is_used_up(tally)) {
            found.complete = false;
            break;
        }
        count_steps(tally, 1);
        const int64_t at = next.state;
        found.lower_bound = max_double(found.lower_bound, next.least);
        const struct dominance dominance = dominance_of(task, at);
        if (dominance.by >= 0) {
            found.complete = task->first_goal || found.edges < task->edges_rows;
            if (found.complete && !task->first_goal) {
                keep_edge(task, found.edges++, at, dominance.by, -dominance.page_out);
                search->closed[at] = search->energy[at];
            }
            continue;
        }
        const bool is_new = isinf(search->closed[at]);
        search->closed[at] = search->energy[at];
        if (is_goal(problem, row_of(search, at))) {
            cheapest = min_double(cheapest, search->energy[at]);
            if (task->first_goal) {
                found.goal = at;
            }
            continue;
        }
        const struct expanded from = {at, is_new && !task->first_goal};
        found.complete = expand(task, from, &found.edges, tally);
    }
    found.lower_bound = found.complete ? cheapest : min_double(found.lower_bound, cheapest);
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
