# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over the contract's own schedules, in compiled code.

A state is a sequence of events (see `evaluation`). Any whose first computes stand in a topological order is a schedule,
so a move can insert events anywhere behind those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints
from poet_planner.solve.jit import compiled
from poet_planner.solve.search.delta_evaluation import (
    EDITS,
    LEFT_OUT,
    copy_edits,
    edited,
    estimate,
    leave_out,
    room_for,
    take_back,
    unedited,
)
from poet_planner.solve.search.evaluation import EXTRAS, evaluate, index
from poet_planner.solve.search.incumbent import same
from poet_planner.solve.search.moves import MAKES_ROOM, below, random, random_move, shift, split_overflow

REPAIRS = 4
# What penalties are multiplied or divided by; below a ceiling, where they decide alone, less.
STEERING = 1.1
STEERING_BELOW = 1.02
PRUNE_TRIES = 32


class State(NamedTuple):
    """Where one annealer stands; it changes in place.

    ``figures`` holds, in the order of the constants below, the current energy, time and overflow, the penalties per
    byte over the budget and per second over the deadline, the temperature, its factor per move, the best energy since
    the last start, the share of the moves of a state over the budget that split an overflow (the repairs after such
    a move are among ``lengths``), and the ceiling: no move raises the energy above it.
    """

    current: Ints
    best: Ints
    figures: Floats
    lengths: Ints


ENERGY, TIME, OVERFLOW, PER_BYTE, PER_SECOND, TEMPERATURE, COOLING, BEST, SPLITTING, CEILING = range(10)
CURRENT_LENGTH, BEST_LENGTH, MOVES, OVER_BUDGET, LATE, SPLIT_REPAIRS, CHANGED_FIRST = range(7)


def new_state(events: int) -> State:
    """Without a schedule, penalties or a ceiling, and room for so many events."""
    state = State(
        current=np.zeros(events, dtype=np.int64),
        best=np.zeros(events, dtype=np.int64),
        figures=np.zeros(CEILING + 1),
        lengths=np.zeros(CHANGED_FIRST + 1, dtype=np.int64),
    )
    state.figures[BEST] = state.figures[CEILING] = np.inf
    return state


@compiled
def _late(p, time):  # type: ignore[no-untyped-def]
    over = time - p.deadline
    return over if over > 0.0 else 0.0


@compiled
def _accept(p, w, state, result):  # type: ignore[no-untyped-def]
    for k in range(result.length):
        state.current[k] = w.kept[k]
    state.lengths[CURRENT_LENGTH] = result.length
    f = state.figures
    f[ENERGY] = result.energy
    f[TIME] = result.time
    f[OVERFLOW] = result.overflow
    if result.overflow == 0.0 and _late(p, result.time) == 0.0 and result.energy < f[BEST]:
        f[BEST] = result.energy
        for k in range(result.length):
            state.best[k] = w.kept[k]
        state.lengths[BEST_LENGTH] = result.length


@compiled
def start_from(p, w, state, events, length):  # type: ignore[no-untyped-def]
    """Make ``events`` the current state; False if it is no schedule."""
    result = evaluate(p, events, length, w)
    if result.length < 0:
        return False
    state.figures[BEST] = np.inf
    _accept(p, w, state, result)
    return True


@compiled
def anneal(p, w, other, t, spare, state, moves):  # type: ignore[no-untyped-def]
    """Try ``moves`` moves at falling temperature.

    ``w`` holds the evaluation of the current state, ``t`` the edits that are tried; what is accepted is evaluated in
    ``other``, and they change places. ``spare`` holds what may take the place of ``t``.
    """
    f = state.figures
    changed_first = state.lengths[CHANGED_FIRST] > 0
    evaluate(p, state.current, state.lengths[CURRENT_LENGTH], w)
    if not index(p, w, state.lengths[CURRENT_LENGTH]):
        return
    for _ in range(moves):
        state.lengths[MOVES] += 1
        f[TEMPERATURE] *= f[COOLING]
        if state.lengths[MOVES] % 100 == 0:
            steering = STEERING_BELOW if f[CEILING] < np.inf else STEERING
            _adapt(f, PER_BYTE, steering, state.lengths, OVER_BUDGET)
            _adapt(f, PER_SECOND, steering, state.lengths, LATE)
        state.lengths[OVER_BUDGET] += f[OVERFLOW] > 0.0
        state.lengths[LATE] += _late(p, f[TIME]) > 0.0
        length = state.lengths[CURRENT_LENGTH]
        repairs = REPAIRS
        prune = False
        unedited(w, t, length)
        if f[OVERFLOW] > 0.0 and random(w) < f[SPLITTING]:
            made = split_overflow(p, w, f[PER_SECOND], t, length, changed_first)
            repairs = state.lengths[SPLIT_REPAIRS]
        else:
            draw = random(w)
            prune = MAKES_ROOM[0] <= draw < MAKES_ROOM[1]
            made = random_move(p, w, f[PER_SECOND], t, length, draw)
        if not made:
            continue
        result = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], t)
        now = f[ENERGY] + f[PER_BYTE] * f[OVERFLOW] + f[PER_SECOND] * _late(p, f[TIME])
        # The Metropolis test turned round: what the new state may cost. Repairs hardly ever save energy.
        wanted = now - f[TEMPERATURE] * np.log(random(w) + 1e-300)
        while result.length >= 0 and result.overflow > 0.0 and repairs > 0 and result.energy <= wanted:
            repairs -= 1
            if not split_overflow(p, w, f[PER_SECOND], t, length, changed_first):
                break
            result = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], t)
        if result.length < 0:
            continue
        # Where there is still no room, nothing will go.
        if prune and result.overflow <= f[OVERFLOW]:
            result, t, spare = _pruned(p, w, f, result, length, t, spare)
        if not _wanted(p, f, result, wanted):
            continue
        result = evaluate(p, w.candidate, edited(w, t, length, w.candidate), other)
        if result.length >= 0 and _wanted(p, f, result, wanted) and index(p, other, result.length):
            _accept(p, other, state, result)
            w, other = other, w


@compiled
def wander(p, w, other, t, state, moves):  # type: ignore[no-untyped-def]
    """Shift events about ``moves`` times, as far as nothing breaks a limit or costs more than now."""
    f = state.figures
    evaluate(p, state.current, state.lengths[CURRENT_LENGTH], w)
    if not index(p, w, state.lengths[CURRENT_LENGTH]):
        return
    for _ in range(moves):
        length = state.lengths[CURRENT_LENGTH]
        unedited(w, t, length)
        if not shift(p, w, t, length):
            continue
        result = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], t)
        if not _no_worse(p, f, result):
            continue
        result = evaluate(p, w.candidate, edited(w, t, length, w.candidate), other)
        if _no_worse(p, f, result) and index(p, other, result.length):
            _accept(p, other, state, result)
            w, other = other, w


@compiled
def _no_worse(p, f, result):  # type: ignore[no-untyped-def]
    within = result.length >= 0 and result.overflow <= 0.0 and _late(p, result.time) <= 0.0
    return within and (result.energy <= f[ENERGY] or same(result.energy, f[ENERGY]))


@compiled
def _pruned(p, w, f, result, length, t, spare):  # type: ignore[no-untyped-def]
    """Leave out what the edited state can do without, as far as some tries show.

    Together with an event put in, this exchanges a large value for many small ones. Returns the evaluation, the
    edits, and the other ones.
    """
    extras = w.counters[EXTRAS]
    count = extras + t.counters[EDITS]
    start = below(w, count)
    tries = 0
    for k in range(count):
        choice = (start + k) % count
        if not _may_go(p, w, t, choice):
            continue
        tries += 1
        if tries > PRUNE_TRIES:
            break
        copy_edits(t, spare)
        if choice >= extras:
            take_back(spare, choice - extras)
        else:
            leave_out(spare, w.extra[choice])
        fewer = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], spare)
        if fewer.length >= 0 and fewer.overflow <= result.overflow and _cost(p, f, fewer) < _cost(p, f, result):
            result = fewer
            t, spare = spare, t
    return result, t, spare


@compiled
def _may_go(p, w, t, choice):  # type: ignore[no-untyped-def]
    """Whether the extra event of that number may well be left out, or the edit after those taken back."""
    edit = choice - w.counters[EXTRAS]
    if edit < 0:
        return room_for(p, w, t, w.extra[choice])
    return edit < t.counters[EDITS] and t.edit_event[edit] != LEFT_OUT


@compiled
def _cost(p, f, result):  # type: ignore[no-untyped-def]
    """Energy, and penalties for what is over the limits."""
    return result.energy + f[PER_BYTE] * result.overflow + f[PER_SECOND] * _late(p, result.time)


@compiled
def _wanted(p, f, result, most):  # type: ignore[no-untyped-def]
    """Whether a state costs no more than ``most``, and its energy does not rise above the ceiling."""
    return _cost(p, f, result) <= most and result.energy <= max(f[CEILING], f[ENERGY])


@compiled
def _adapt(figures, penalty, steering, lengths, counter):  # type: ignore[no-untyped-def]
    """Keep about half of the states within the limit."""
    if lengths[counter] > 60:
        figures[penalty] *= steering
    elif lengths[counter] < 40:
        figures[penalty] /= steering
    lengths[counter] = 0
