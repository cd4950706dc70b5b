/* SPDX-License-Identifier: Apache-2.0 */
/* What a search for a cheapest path over memory states has met; the fields are explained in statespace/path_search.py.
 */
#ifndef POET_PATH_SEARCH_H
#define POET_PATH_SEARCH_H

#include "minmax.h"
#include "problem.h"

#define OPEN_STATES(ARRAY, TABLE, SCALAR) \
    ARRAY(double, least)                  \
    ARRAY(double, order)                  \
    ARRAY(int64_t, state)                 \
    ARRAY(int64_t, count)

STRUCT(open_states, OPEN_STATES);

#define PATH_SEARCH(ARRAY, TABLE, SCALAR) \
    ARRAY(int64_t, slots)                 \
    TABLE(int64_t, rows)                  \
    ARRAY(double, energy)                 \
    ARRAY(double, closed)                 \
    ARRAY(double, to_go)                  \
    ARRAY(int64_t, parent)                \
    ARRAY(int64_t, arrived_by)            \
    ARRAY(int64_t, count)                 \
    SCALAR(struct open_states *, open_states)

STRUCT(path_search, PATH_SEARCH);

/* An entry of the heap, in the order of its members. */
struct open_state {
    double least;
    double order;
    int64_t state;
};

/* What every path costs at least, as was proven so far; and what it must cost less than. */
struct range {
    double least;
    double limit;
};

/* The row of a state that was met, or, for `count`, of the one that may be met next. */
static inline int64_t *row_of(const struct path_search *search, int64_t state)
{
    return search->rows + state * search->rows_columns;
}

void push_open(struct open_states *open, struct open_state pushed);
struct open_state pop_open(struct open_states *open);
bool next_state(struct path_search *search, struct open_state *next);
bool is_full(const struct path_search *search);

int64_t number_of(const struct path_search *search, const int64_t *row);
int64_t known_state(const struct problem *problem, struct path_search *search, double spent);
int64_t add_state(struct path_search *search, double to_go);
void reach(struct path_search *search, int64_t to, double spent, int64_t from, int64_t move, struct range paths);

#endif
