/* SPDX-License-Identifier: Apache-2.0 */
#include "annealing.h"

#include <math.h>
#include <string.h>

#include "moves.h"
#include "random.h"

FIELDS(state, STATE)

enum {
    REPAIRS = 4,          /* lifetimes split after a move that causes overflow */
    STEERING_MOVES = 100, /* moves between two adaptations of the penalties */
    OFTEN_BROKEN = 60,    /* a penalty rises if more of these moves begin in a state that breaks the limit */
    SELDOM_BROKEN = 40,   /* a penalty falls if fewer do */
    PRUNE_TRIES = 32      /* extra events that are tried for deletion after a move that makes room */
};

static const double STEERING = 1.1;            /* factor by which penalties rise and fall */
static const double STEERING_UNDER_CAP = 1.02; /* the same under an energy cap, where the penalties alone decide */

/* One annealer. */
struct annealer {
    const struct problem *problem;
    struct workspace *work;         /* the evaluation of the current state */
    struct workspace *other;        /* that of a state that may be accepted: then both change places */
    struct delta_evaluation *delta; /* the edits of the move */
    struct delta_evaluation *spare; /* edits that may replace them */
    struct state *state;
};

static struct evaluation current_of(const struct state *state)
{
    return (struct evaluation){state->lengths[CURRENT_LENGTH], state->figures[ENERGY], state->figures[TIME],
                               state->figures[OVERFLOW]};
}

static double penalised(const struct annealer *annealer, struct evaluation found)
{
    const double *figures = annealer->state->figures;
    return cost_of(annealer->problem, found, figures[PER_BYTE], figures[PER_SECOND]);
}

/* Make what `work` holds the current state. */
static void accept(const struct problem *problem, const struct workspace *work, struct state *state,
                   struct evaluation found)
{
    const size_t bytes = (size_t)found.length * sizeof *state->current;
    double *figures = state->figures;
    memcpy(state->current, work->kept, bytes);
    state->lengths[CURRENT_LENGTH] = found.length;
    figures[ENERGY] = found.energy;
    figures[TIME] = found.time;
    figures[OVERFLOW] = found.overflow;
    if (found.overflow == 0.0 && late(problem, found.time) == 0.0 && found.energy < figures[BEST]) {
        figures[BEST] = found.energy;
        memcpy(state->best, work->kept, bytes);
        state->lengths[BEST_LENGTH] = found.length;
    }
}

bool start_from(const struct problem *problem, struct workspace *work, struct state *state, const int64_t *events,
                int64_t length)
{
    const struct evaluation found = evaluate(problem, events, length, work);
    if (found.length < 0) {
        return false;
    }
    state->figures[BEST] = (double)INFINITY;
    accept(problem, work, state, found);
    return true;
}

/* Evaluate the current state in `work`. False if there is no room for its touches. */
static bool evaluate_current(struct annealer *annealer)
{
    const struct state *state = annealer->state;
    const int64_t length = state->lengths[CURRENT_LENGTH];
    (void)evaluate(annealer->problem, state->current, length, annealer->work);
    return index_touches(annealer->problem, annealer->work, length);
}

/* Evaluate the edited sequence in full, in `other`. */
static struct evaluation evaluate_candidate(struct annealer *annealer)
{
    const int64_t length = write_edited(annealer->work, annealer->delta, annealer->state->lengths[CURRENT_LENGTH]);
    return evaluate(annealer->problem, annealer->work->candidate, length, annealer->other);
}

/* Make what `other` holds the current state, unless there is no room for its touches. */
static void accept_candidate(struct annealer *annealer, struct evaluation found)
{
    if (!index_touches(annealer->problem, annealer->other, found.length)) {
        return;
    }
    accept(annealer->problem, annealer->other, annealer->state, found);
    struct workspace *const other = annealer->other;
    annealer->other = annealer->work;
    annealer->work = other;
}

/* Raise or lower a penalty so that about half of the states keep its limit. */
static void adapt(struct state *state, int penalty, int counter)
{
    const double factor = state->figures[ENERGY_CAP] < (double)INFINITY ? STEERING_UNDER_CAP : STEERING;
    if (state->lengths[counter] > OFTEN_BROKEN) {
        state->figures[penalty] *= factor;
    } else if (state->lengths[counter] < SELDOM_BROKEN) {
        state->figures[penalty] /= factor;
    }
    state->lengths[counter] = 0;
}

/* Count a move, cool down, and steer the penalties. */
static void begin_move(const struct problem *problem, struct state *state)
{
    state->lengths[MOVES]++;
    state->figures[TEMPERATURE] *= state->figures[COOLING_FACTOR];
    if (state->lengths[MOVES] % STEERING_MOVES == 0) {
        adapt(state, PER_BYTE, OVER_BUDGET);
        adapt(state, PER_SECOND, LATE);
    }
    state->lengths[OVER_BUDGET] += state->figures[OVERFLOW] > 0.0;
    state->lengths[LATE] += late(problem, state->figures[TIME]) > 0.0;
}

/* Whether the extra event of number `choice`, or the edit counted after those, may be unnecessary. */
static bool is_deletable(const struct annealer *annealer, int64_t choice)
{
    const struct workspace *work = annealer->work;
    const struct delta_evaluation *delta = annealer->delta;
    const int64_t edit = choice - work->counters[EXTRAS];
    if (edit < 0) {
        return room_for(annealer->problem, work, delta, work->extra[choice]);
    }
    return edit < delta->counters[EDITS] && delta->edit_event[edit] != LEFT_OUT;
}

/* Delete extra events that the edited state does not need, after some tries; returns its evaluation then.
 *
 * This exchanges one large value for many small ones. */
static struct evaluation prune(struct annealer *annealer, struct evaluation found)
{
    struct workspace *work = annealer->work;
    const struct evaluation old = current_of(annealer->state);
    const int64_t extras = work->counters[EXTRAS];
    const int64_t count = extras + annealer->delta->counters[EDITS];
    const int64_t begin = below(work, count);
    int64_t tries = 0;
    for (int64_t k = 0; k < count && tries < PRUNE_TRIES; k++) {
        const int64_t choice = (begin + k) % count;
        if (!is_deletable(annealer, choice)) {
            continue;
        }
        tries++;
        struct delta_evaluation *const fewer = annealer->spare;
        copy_edits(annealer->delta, fewer);
        if (choice >= extras) {
            take_back(fewer, choice - extras);
        } else {
            (void)leave_out(fewer, work->extra[choice]);
        }
        const struct evaluation then = evaluate_edits(annealer->problem, work, old, fewer);
        if (then.length >= 0 && then.overflow <= found.overflow &&
            penalised(annealer, then) < penalised(annealer, found)) {
            found = then;
            annealer->spare = annealer->delta;
            annealer->delta = fewer;
        }
    }
    return found;
}

/* Whether a state costs no more than `most`, and its energy does not rise above the energy cap. */
static bool is_accepted(const struct annealer *annealer, struct evaluation found, double most)
{
    const double *figures = annealer->state->figures;
    const double cap = figures[ENERGY_CAP] > figures[ENERGY] ? figures[ENERGY_CAP] : figures[ENERGY];
    return penalised(annealer, found) <= most && found.energy <= cap;
}

static void make_move(struct annealer *annealer)
{
    const struct problem *problem = annealer->problem;
    struct workspace *work = annealer->work;
    struct delta_evaluation *delta = annealer->delta;
    struct state *state = annealer->state;
    const double *figures = state->figures;
    begin_move(problem, state);
    const struct evaluation old = current_of(state);
    const struct move move = {problem, work, delta, old.length, figures[PER_SECOND], state->lengths[CHANGED_FIRST] > 0};
    clear_edits(work, delta, old.length);
    const bool splits = old.overflow > 0.0 && uniform(work) < figures[SPLITTING];
    const double draw = splits ? 0.0 : uniform(work);
    if (!(splits ? split_overflow(&move) : random_move(&move, draw))) {
        return;
    }
    struct evaluation found = evaluate_edits(problem, work, old, delta);
    /* Metropolis test, solved for the cost that the new state may have. Repairs hardly ever save energy. */
    const double wanted = penalised(annealer, old) - figures[TEMPERATURE] * log(uniform(work) + 1e-300);
    int64_t repairs = splits ? state->lengths[SPLIT_REPAIRS] : REPAIRS;
    while (found.length >= 0 && found.overflow > 0.0 && repairs > 0 && found.energy <= wanted) {
        repairs--;
        if (!split_overflow(&move)) {
            break;
        }
        found = evaluate_edits(problem, work, old, delta);
    }
    if (found.length < 0) {
        return;
    }
    /* Without new room no extra event can be deleted. */
    if (MAKES_ROOM <= draw && draw < MAKES_NO_MORE_ROOM && found.overflow <= old.overflow) {
        found = prune(annealer, found);
    }
    if (!is_accepted(annealer, found, wanted)) {
        return;
    }
    found = evaluate_candidate(annealer);
    if (found.length >= 0 && is_accepted(annealer, found, wanted)) {
        accept_candidate(annealer, found);
    }
}

void anneal(const struct problem *problem, struct workspace *work, struct workspace *other,
            struct delta_evaluation *delta, struct delta_evaluation *spare, struct state *state, int64_t moves)
{
    struct annealer annealer = {problem, work, other, delta, spare, state};
    if (!evaluate_current(&annealer)) {
        return;
    }
    for (int64_t k = 0; k < moves; k++) {
        make_move(&annealer);
    }
}

/* Whether a state keeps both limits and costs no more energy than the current one. */
static bool no_worse(const struct annealer *annealer, struct evaluation found)
{
    const double energy = annealer->state->figures[ENERGY];
    const bool within = found.length >= 0 && found.overflow <= 0.0 && late(annealer->problem, found.time) <= 0.0;
    return within && (found.energy <= energy || same(found.energy, energy));
}

static void make_shift(struct annealer *annealer)
{
    const struct evaluation old = current_of(annealer->state);
    const struct move move = {annealer->problem, annealer->work, annealer->delta, old.length, 0.0, false};
    clear_edits(annealer->work, annealer->delta, old.length);
    if (!shift(&move) || !no_worse(annealer, evaluate_edits(annealer->problem, annealer->work, old, annealer->delta))) {
        return;
    }
    const struct evaluation found = evaluate_candidate(annealer);
    if (no_worse(annealer, found)) {
        accept_candidate(annealer, found);
    }
}

void reorder(const struct problem *problem, struct workspace *work, struct workspace *other,
             struct delta_evaluation *delta, struct state *state, int64_t moves)
{
    struct annealer annealer = {problem, work, other, delta, NULL, state};
    if (!evaluate_current(&annealer)) {
        return;
    }
    for (int64_t k = 0; k < moves; k++) {
        make_shift(&annealer);
    }
}
