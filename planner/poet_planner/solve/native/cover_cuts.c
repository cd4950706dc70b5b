/* SPDX-License-Identifier: Apache-2.0 */
#include "cover_cuts.h"

FIELDS(columns, COLUMNS)
FIELDS(point, POINT)
FIELDS(separation, SEPARATION)

/* Least violation of a cut that is added, relative to its right-hand side. */
#define VIOLATION 1e-3
/* A divisor that leaves a cover cut as it is. */
#define UNBROKEN ((int64_t)1 << 60)
/* Sizes that a cover cut is rounded with; of more sizes some are skipped. */
#define MOST_DIVISORS 16
/* A value that the point restores less is not taken out of a cover. */
#define LEAST_RESTORED 0.2

/* The cuts found so far, and how many columns the row under construction has. */
struct cuts {
    const struct separation *task;
    struct cut_counts counts;
    int64_t filled;
};

/* The stages t + 1 to tau. */
struct interval {
    int64_t t;
    int64_t tau;
};

/* How often the point pages value v in, in an interval. */
static double paging(const struct point *point, struct interval stages, int64_t v)
{
    const int64_t m = point->paged_columns;
    return point->paged[(stages.tau + 1) * m + v] - point->paged[(stages.t + 1) * m + v];
}

/* For each value: how much of it the point restores at least in the interval, and by which chain.
 *
 * A value is paged in, or its producer is computed, for which each input is kept or restored in turn. `chain[v]` is the
 * input by which the chain of v goes on, or -1 where it ends with the computes of the producer. */
static void find_chains(const struct separation *task, struct interval stages, int64_t *chain, double *restored)
{
    const struct problem *const problem = task->problem;
    const struct point *const point = task->point;
    const double *const kept = point->kept + stages.t * point->kept_columns;
    const double *const upto = point->computed + (stages.tau + 1) * point->computed_columns;
    const double *const before = point->computed + (stages.t + 1) * point->computed_columns;
    for (int64_t v = 0; v < values_of(problem); v++) {
        const int64_t j = problem->producer[v];
        double least = upto[j] - before[j];
        chain[v] = -1;
        for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
            const int64_t u = problem->input_value[k];
            const double amount = kept[u] + restored[u];
            if (problem->size[u] > 0 && amount < least - 1e-9) {
                least = amount;
                chain[v] = u;
            }
        }
        const double paged = paging(point, stages, v);
        restored[v] = least + (point->out[v] < paged ? point->out[v] : paged);
    }
}

/* Add to the coefficient of a column, if there is one. */
static void add_to_row(struct cuts *cuts, int64_t column, double weight)
{
    if (column < 0) {
        return;
    }
    if (cuts->task->weights[column] == 0.0) {
        cuts->task->touched[cuts->filled] = column;
        cuts->filled++;
    }
    cuts->task->weights[column] += weight;
}

/* Add the columns of one node or value in all stages of an interval. */
static void add_stages(struct cuts *cuts, const int64_t *columns, int64_t width, struct interval stages, int64_t which,
                       double weight)
{
    for (int64_t stage = stages.t + 1; stage <= stages.tau; stage++) {
        add_to_row(cuts, columns[stage * width + which], weight);
    }
}

/* Add `weight` times the chain of v to the row. */
static void add_chain(struct cuts *cuts, struct interval stages, const int64_t *chain, int64_t v, double weight)
{
    const struct columns *const columns = cuts->task->columns;
    const struct point *const point = cuts->task->point;
    while (true) {
        const int64_t out = columns->page_out[v];
        if (out >= 0 && point->out[v] < paging(point, stages, v)) {
            add_to_row(cuts, out, weight);
        } else {
            add_stages(cuts, columns->page_in, columns->page_in_columns, stages, v, weight);
        }
        if (chain[v] < 0) {
            add_stages(cuts, columns->compute, columns->compute_columns, stages, cuts->task->problem->producer[v],
                       weight);
            return;
        }
        v = chain[v];
        add_to_row(cuts, columns->keep[stages.t * columns->keep_columns + v], weight);
    }
}

/* Append the row to the cuts as far as there is room, and empty it. */
static void finish_row(struct cuts *cuts)
{
    const struct separation *const task = cuts->task;
    for (int64_t k = 0; k < cuts->filled; k++) {
        const int64_t column = task->touched[k];
        if (cuts->counts.coefficients < task->numbers_count) {
            task->numbers[cuts->counts.coefficients] = column;
            task->coefficients[cuts->counts.coefficients] = task->weights[column];
        }
        cuts->counts.coefficients++;
        task->weights[column] = 0.0;
    }
    cuts->filled = 0;
    cuts->counts.cuts++;
    task->starts[cuts->counts.cuts] = cuts->counts.coefficients;
}

/* Whether node j needs value v. */
static bool needs(const struct problem *problem, int64_t j, int64_t v)
{
    for (int64_t k = problem->input_start[j]; k < problem->input_start[j + 1]; k++) {
        if (problem->input_value[k] == v) {
            return true;
        }
    }
    return false;
}

/* Values of a cover, which are in the task's `group`, and what they and the working set exceed the RAM by. */
struct cover {
    int64_t count;
    int64_t excess;
};

/* All values with an interval after event point t that its node neither needs nor makes. `amount` is how much of each
 * the point restores. */
static struct cover all_values(const struct separation *task, int64_t t)
{
    const struct problem *const problem = task->problem;
    const int64_t m = values_of(problem);
    const int64_t node = task->columns->event_points[t];
    struct cover cover = {0, problem->workspace[node] - problem->budget};
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        cover.excess += problem->size[v];
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        cover.excess += problem->size[problem->input_value[k]];
    }
    for (int64_t v = 0; v < m; v++) {
        const int64_t tau = task->columns->interval_end[t * m + v];
        if (tau >= 0 && problem->size[v] != 0 && problem->producer[v] != node && !needs(problem, node, v)) {
            task->group[cover.count] = v;
            task->amount[cover.count] = task->restored[tau * m + v];
            cover.excess += problem->size[v];
            cover.count++;
        }
    }
    return cover;
}

/* Sort both, the largest amount first, by insertion: they come nearly in order. */
static void sort_by_amount(int64_t *group, double *amount, int64_t count)
{
    for (int64_t k = 1; k < count; k++) {
        const int64_t v = group[k];
        const double value_amount = amount[k];
        int64_t at = k;
        while (at > 0 && amount[at - 1] < value_amount) {
            group[at] = group[at - 1];
            amount[at] = amount[at - 1];
            at--;
        }
        group[at] = v;
        amount[at] = value_amount;
    }
}

static bool is_among(const int64_t *numbers, int64_t count, int64_t wanted)
{
    for (int64_t k = 0; k < count; k++) {
        if (numbers[k] == wanted) {
            return true;
        }
    }
    return false;
}

/* The sizes that a cover is rounded with; returns their number. */
static int64_t find_divisors(const struct separation *task, int64_t count)
{
    int64_t *const divisors = task->divisors;
    int64_t distinct = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t size = task->problem->size[task->group[k]];
        if (!is_among(divisors, distinct, size)) {
            divisors[distinct] = size;
            distinct++;
        }
    }
    if (distinct <= MOST_DIVISORS) {
        return distinct;
    }
    for (int64_t which = 0; which < MOST_DIVISORS; which++) {
        divisors[which] = divisors[which * distinct / MOST_DIVISORS];
    }
    return MOST_DIVISORS;
}

/* Coefficient of mixed-integer rounding, scaled to a right-hand side of 1. */
static double rounded(int64_t size, int64_t excess, int64_t divisor)
{
    const int64_t rest = excess % divisor;
    const int64_t whole = size / divisor;
    const int64_t part = size % divisor;
    if (rest == 0) {
        return ((double)whole + (part > 0 ? 1.0 : 0.0)) / (double)(excess / divisor);
    }
    const double share = (double)part / (double)rest;
    return ((double)whole + (share < 1.0 ? share : 1.0)) / (double)(excess / divisor + 1);
}

/* A cover cut: the values of the group from `first` on restore `excess` bytes; -1: none. */
struct cover_cut {
    int64_t first;
    int64_t excess;
    int64_t divisor;
};

/* The left-hand side of a cover cut at the point, or some number of at least `enough`. */
static double activity_of(const struct separation *task, int64_t count, struct cover_cut cut, double enough)
{
    double activity = 0.0;
    for (int64_t k = cut.first; k < count && activity < enough; k++) {
        activity += rounded(task->problem->size[task->group[k]], cut.excess, cut.divisor) * task->amount[k];
    }
    return activity;
}

/* The most violated cut of a cover. */
static struct cover_cut most_violated(const struct separation *task, struct cover cover)
{
    const int64_t distinct = find_divisors(task, cover.count);
    struct cover_cut best = {-1, 0, 0};
    double violation = VIOLATION;
    int64_t rest = cover.excess;
    for (int64_t first = 0; first <= cover.count && rest > 0; first++) {
        for (int64_t which = 0; which <= distinct; which++) {
            const int64_t divisor = which == distinct ? UNBROKEN : task->divisors[which];
            if (rest < divisor && divisor < UNBROKEN) {
                continue;
            }
            const struct cover_cut cut = {first, rest, divisor};
            const double activity = activity_of(task, cover.count, cut, 1.0 - violation);
            if (1.0 - activity > violation) {
                violation = 1.0 - activity;
                best = cut;
            }
        }
        if (first == cover.count || task->amount[first] < LEAST_RESTORED) {
            break;
        }
        rest -= task->problem->size[task->group[first]];
    }
    return best;
}

/* Append the most violated cover cut at event point t, if there is one.
 *
 * V is all values with an interval after t that the node of t neither needs nor makes. D is what V exceeds the RAM by.
 * A, a subset of V with fewer than D bytes, is chosen greedily: the values that the point restores most. The bytes
 * restored of the others must be at least D - s(A); this row is rounded with the sizes in V as divisors. */
static void add_cover_cut(struct cuts *cuts, int64_t t)
{
    const struct separation *const task = cuts->task;
    const int64_t m = values_of(task->problem);
    const struct cover cover = all_values(task, t);
    if (cover.excess <= 0 || cover.count == 0) {
        return;
    }
    sort_by_amount(task->group, task->amount, cover.count);
    const struct cover_cut cut = most_violated(task, cover);
    if (cut.first < 0) {
        return;
    }
    for (int64_t k = cut.first; k < cover.count; k++) {
        const int64_t v = task->group[k];
        const struct interval stages = {t, task->columns->interval_end[t * m + v]};
        const double weight = rounded(task->problem->size[v], cut.excess, cut.divisor);
        if (weight > 0.0) {
            add_chain(cuts, stages, task->chains + stages.tau * m, v, weight);
        }
    }
    finish_row(cuts);
}

/* Whether the interval of value v after event point t ends with stage tau. */
static bool ends_with(const struct separation *task, struct interval stages, int64_t v)
{
    const int64_t m = values_of(task->problem);
    return task->columns->interval_end[stages.t * m + v] == stages.tau && task->problem->size[v] > 0;
}

static bool is_end_of_any(const struct separation *task, struct interval stages)
{
    for (int64_t v = 0; v < values_of(task->problem); v++) {
        if (ends_with(task, stages, v)) {
            return true;
        }
    }
    return false;
}

/* Find the chains of an interval, and note the restoration cuts that are violated more than those known. */
static void try_interval(const struct separation *task, struct interval stages)
{
    const int64_t m = values_of(task->problem);
    double *const restored = task->restored + stages.tau * m;
    double *const worst = task->worst + stages.tau * m;
    find_chains(task, stages, task->chains + stages.tau * m, restored);
    for (int64_t v = 0; v < m; v++) {
        if (!ends_with(task, stages, v)) {
            continue;
        }
        const double violation = 1.0 - task->point->kept[stages.t * m + v] - restored[v];
        if (violation > VIOLATION && violation > worst[v] + 1e-6) {
            worst[v] = violation;
            task->worst_at[stages.tau * m + v] = stages.t;
        }
    }
}

/* Append the restoration cut of value v in an interval. */
static void add_restoration_cut(struct cuts *cuts, struct interval stages, int64_t v)
{
    const struct separation *const task = cuts->task;
    find_chains(task, stages, task->chains, task->restored);
    add_to_row(cuts, task->columns->keep[stages.t * task->columns->keep_columns + v], 1.0);
    add_chain(cuts, stages, task->chains, v, 1.0);
    finish_row(cuts);
}

/* All violated cover cuts, then for each value and interval end the most violated restoration cut. Where there is no
 * room for more coefficients, they are counted. */
struct cut_counts separate(const struct separation *task)
{
    struct cuts cuts = {task, {0, 0}, 0};
    const int64_t m = values_of(task->problem);
    const int64_t event_points = task->columns->event_points_count;
    for (int64_t t = 0; t < event_points; t++) {
        for (int64_t tau = t + 1; tau <= event_points; tau++) {
            const struct interval stages = {t, tau};
            if (is_end_of_any(task, stages)) {
                try_interval(task, stages);
            }
        }
        add_cover_cut(&cuts, t);
    }
    for (int64_t tau = 0; tau <= event_points; tau++) {
        for (int64_t v = 0; v < m; v++) {
            const int64_t t = task->worst_at[tau * m + v];
            if (t >= 0) {
                add_restoration_cut(&cuts, (struct interval){t, tau}, v);
            }
        }
    }
    return cuts.counts;
}
