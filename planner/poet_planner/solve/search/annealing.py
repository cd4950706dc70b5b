# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over schedules (Kirkpatrick, Gelatt and Vecchi 1983; docs/optimiser/search.md).

A state is a sequence of events (see `evaluation`). It may exceed the RAM budget or be late, at a penalty. The penalties
are adapted so that about half of the states keep each limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import compiled
from poet_planner.solve.search.delta_evaluation import (
    EDITS,
    LEFT_OUT,
    DeltaEvaluation,
    clear_edits,
    copy_edits,
    evaluate_edits,
    leave_out,
    room_for,
    take_back,
    write_edited,
)
from poet_planner.solve.search.evaluation import EXTRAS, Evaluation, Workspace, evaluate, index_touches
from poet_planner.solve.search.incumbent import same
from poet_planner.solve.search.moves import MAKES_ROOM, below, random, random_move, shift, split_overflow

REPAIRS = 4  # lifetimes split after a move that causes overflow
STEERING = 1.1  # factor by which penalties rise and fall
STEERING_UNDER_CAP = 1.02  # the same under an energy cap, where the penalties alone decide
STEERING_MOVES = 100  # moves between two adaptations of the penalties
OFTEN_BROKEN = 60  # a penalty rises if more of these moves begin in a state that breaks the limit
SELDOM_BROKEN = 40  # a penalty falls if fewer do
PRUNE_TRIES = 32  # extra events that are tried for deletion after a move that makes room


class State(NamedTuple):
    """The state of one annealer. It changes in place.

    Attributes
    ----------
    current : events of the current state
    best : events of the best schedule since the last start
    figures : energy, time and overflow of the current state; penalties per byte over the budget and per second over the
        deadline; temperature, and its factor for each move; energy of the best schedule; probability that a move of a
        state with overflow splits the overflow; energy cap, above which no move raises the energy
    lengths : number of events of ``current`` and ``best``; moves made; moves since the last adaptation of the penalties
        that began over the budget, and that began late; repairs after a move that splits an overflow; whether those
        prefer values that are in RAM because of the move
    """

    current: Ints
    best: Ints
    figures: Floats
    lengths: Ints


# Entries of State.figures and State.lengths.
ENERGY, TIME, OVERFLOW, PER_BYTE, PER_SECOND, TEMPERATURE, COOLING_FACTOR, BEST, SPLITTING, ENERGY_CAP = range(10)
CURRENT_LENGTH, BEST_LENGTH, MOVES, OVER_BUDGET, LATE, SPLIT_REPAIRS, CHANGED_FIRST = range(7)


def new_state(events: int) -> State:
    """Without a schedule, penalties or an energy cap, for sequences of up to ``events`` events."""
    state = State(
        current=np.zeros(events, dtype=np.int64),
        best=np.zeros(events, dtype=np.int64),
        figures=np.zeros(ENERGY_CAP + 1),
        lengths=np.zeros(CHANGED_FIRST + 1, dtype=np.int64),
    )
    state.figures[BEST] = state.figures[ENERGY_CAP] = np.inf
    return state


@compiled
def _late(problem: Problem, time: float) -> float:
    over = time - problem.deadline
    return over if over > 0.0 else 0.0


@compiled
def _accept(problem: Problem, work: Workspace, state: State, result: Evaluation) -> None:
    for k in range(result.length):
        state.current[k] = work.kept[k]
    state.lengths[CURRENT_LENGTH] = result.length
    figures = state.figures
    figures[ENERGY] = result.energy
    figures[TIME] = result.time
    figures[OVERFLOW] = result.overflow
    if result.overflow == 0.0 and _late(problem, result.time) == 0.0 and result.energy < figures[BEST]:
        figures[BEST] = result.energy
        for k in range(result.length):
            state.best[k] = work.kept[k]
        state.lengths[BEST_LENGTH] = result.length


@compiled
def start_from(problem: Problem, work: Workspace, state: State, events: Ints, length: int) -> bool:
    """Make ``events`` the current state. False, and nothing changes, if it is no schedule."""
    result = evaluate(problem, events, length, work)
    if result.length < 0:
        return False
    state.figures[BEST] = np.inf
    _accept(problem, work, state, result)
    return True


@compiled
def anneal(
    problem: Problem,
    work: Workspace,
    other: Workspace,
    delta: DeltaEvaluation,
    spare: DeltaEvaluation,
    state: State,
    moves: int,
) -> None:
    """Make ``moves`` moves at falling temperature.

    ``work`` holds the evaluation of the current state, ``delta`` the edits of the move. An accepted state is evaluated
    in ``other``, which then changes places with ``work``. ``spare`` is for edits that may replace ``delta``.
    """
    figures = state.figures
    changed_first = state.lengths[CHANGED_FIRST] > 0
    evaluate(problem, state.current, state.lengths[CURRENT_LENGTH], work)
    if not index_touches(problem, work, state.lengths[CURRENT_LENGTH]):
        return
    for _ in range(moves):
        state.lengths[MOVES] += 1
        figures[TEMPERATURE] *= figures[COOLING_FACTOR]
        if state.lengths[MOVES] % STEERING_MOVES == 0:
            steering = STEERING_UNDER_CAP if figures[ENERGY_CAP] < np.inf else STEERING
            _adapt(figures, PER_BYTE, steering, state.lengths, OVER_BUDGET)
            _adapt(figures, PER_SECOND, steering, state.lengths, LATE)
        state.lengths[OVER_BUDGET] += figures[OVERFLOW] > 0.0
        state.lengths[LATE] += _late(problem, figures[TIME]) > 0.0
        length = state.lengths[CURRENT_LENGTH]
        repairs = REPAIRS
        prune = False
        clear_edits(work, delta, length)
        if figures[OVERFLOW] > 0.0 and random(work) < figures[SPLITTING]:
            made = split_overflow(problem, work, figures[PER_SECOND], delta, length, changed_first)
            repairs = state.lengths[SPLIT_REPAIRS]
        else:
            draw = random(work)
            prune = MAKES_ROOM[0] <= draw < MAKES_ROOM[1]
            made = random_move(problem, work, figures[PER_SECOND], delta, length, draw)
        if not made:
            continue
        result = evaluate_edits(problem, work, length, figures[ENERGY], figures[TIME], figures[OVERFLOW], delta)
        now = (
            figures[ENERGY]
            + figures[PER_BYTE] * figures[OVERFLOW]
            + figures[PER_SECOND] * _late(problem, figures[TIME])
        )
        # Metropolis test, solved for the cost that the new state may have. Repairs hardly ever save energy.
        wanted = now - figures[TEMPERATURE] * np.log(random(work) + 1e-300)
        while result.length >= 0 and result.overflow > 0.0 and repairs > 0 and result.energy <= wanted:
            repairs -= 1
            if not split_overflow(problem, work, figures[PER_SECOND], delta, length, changed_first):
                break
            result = evaluate_edits(problem, work, length, figures[ENERGY], figures[TIME], figures[OVERFLOW], delta)
        if result.length < 0:
            continue
        # Without new room no extra event can be deleted.
        if prune and result.overflow <= figures[OVERFLOW]:
            result, delta, spare = _pruned(problem, work, figures, result, length, delta, spare)
        if not _is_accepted(problem, figures, result, wanted):
            continue
        result = evaluate(problem, work.candidate, write_edited(work, delta, length, work.candidate), other)
        if (
            result.length >= 0
            and _is_accepted(problem, figures, result, wanted)
            and index_touches(problem, other, result.length)
        ):
            _accept(problem, other, state, result)
            work, other = other, work


@compiled
def reorder(
    problem: Problem, work: Workspace, other: Workspace, delta: DeltaEvaluation, state: State, moves: int
) -> None:
    """Shift events ``moves`` times; a shift that breaks a limit or raises the energy is rejected."""
    figures = state.figures
    evaluate(problem, state.current, state.lengths[CURRENT_LENGTH], work)
    if not index_touches(problem, work, state.lengths[CURRENT_LENGTH]):
        return
    for _ in range(moves):
        length = state.lengths[CURRENT_LENGTH]
        clear_edits(work, delta, length)
        if not shift(problem, work, delta, length):
            continue
        result = evaluate_edits(problem, work, length, figures[ENERGY], figures[TIME], figures[OVERFLOW], delta)
        if not _no_worse(problem, figures, result):
            continue
        result = evaluate(problem, work.candidate, write_edited(work, delta, length, work.candidate), other)
        if _no_worse(problem, figures, result) and index_touches(problem, other, result.length):
            _accept(problem, other, state, result)
            work, other = other, work


@compiled
def _no_worse(problem: Problem, figures: Floats, result: Evaluation) -> bool:
    within = result.length >= 0 and result.overflow <= 0.0 and _late(problem, result.time) <= 0.0
    return within and (result.energy <= figures[ENERGY] or same(result.energy, figures[ENERGY]))


@compiled
def _pruned(
    problem: Problem,
    work: Workspace,
    figures: Floats,
    result: Evaluation,
    length: int,
    delta: DeltaEvaluation,
    spare: DeltaEvaluation,
) -> tuple[Evaluation, DeltaEvaluation, DeltaEvaluation]:
    """Delete extra events that the edited state does not need, after some tries.

    This exchanges one large value for many small ones. Returns the evaluation, its edits, and the spare edits.
    """
    extras = work.counters[EXTRAS]
    count = extras + delta.counters[EDITS]
    start = below(work, count)
    tries = 0
    for k in range(count):
        choice = (start + k) % count
        if not _is_deletable(problem, work, delta, choice):
            continue
        tries += 1
        if tries > PRUNE_TRIES:
            break
        copy_edits(delta, spare)
        if choice >= extras:
            take_back(spare, choice - extras)
        else:
            leave_out(spare, work.extra[choice])
        fewer = evaluate_edits(problem, work, length, figures[ENERGY], figures[TIME], figures[OVERFLOW], spare)
        if (
            fewer.length >= 0
            and fewer.overflow <= result.overflow
            and _cost(problem, figures, fewer) < _cost(problem, figures, result)
        ):
            result = fewer
            delta, spare = spare, delta
    return result, delta, spare


@compiled
def _is_deletable(problem: Problem, work: Workspace, delta: DeltaEvaluation, choice: int) -> bool:
    """Whether the extra event of number ``choice``, or the edit counted behind those, may be unnecessary."""
    edit = choice - work.counters[EXTRAS]
    if edit < 0:
        return room_for(problem, work, delta, work.extra[choice])
    return edit < delta.counters[EDITS] and delta.edit_event[edit] != LEFT_OUT


@compiled
def _cost(problem: Problem, figures: Floats, result: Evaluation) -> float:
    """Energy and penalties."""
    return result.energy + figures[PER_BYTE] * result.overflow + figures[PER_SECOND] * _late(problem, result.time)


@compiled
def _is_accepted(problem: Problem, figures: Floats, result: Evaluation, most: float) -> bool:
    """Whether a state costs no more than ``most``, and its energy does not rise above the energy cap."""
    return _cost(problem, figures, result) <= most and result.energy <= max(figures[ENERGY_CAP], figures[ENERGY])


@compiled
def _adapt(figures: Floats, penalty: int, steering: float, lengths: Ints, counter: int) -> None:
    """Raise or lower a penalty so that about half of the states keep its limit."""
    if lengths[counter] > OFTEN_BROKEN:
        figures[penalty] *= steering
    elif lengths[counter] < SELDOM_BROKEN:
        figures[penalty] /= steering
    lengths[counter] = 0
