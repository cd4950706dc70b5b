# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over schedules (Kirkpatrick, Gelatt and Vecchi 1983; docs/optimiser/search.md).

A state is a sequence of events (see `evaluation`). It may exceed the RAM budget or be late, at a penalty. The penalties
are adapted so that about half of the states keep each limit.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Flag, Function, Int, Ref, Struct, ints, struct
from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.search.delta_evaluation import DeltaEvaluation
from poet_planner.solve.search.evaluation import Workspace


@struct
class State(Struct):
    """The state of one annealer. It changes in place."""

    current: Ints  # events of the current state
    best: Ints  # events of the best schedule since the last start
    # Energy, time and overflow of the current state; penalties per byte over the budget and per second over the
    # deadline; temperature, and its factor for each move; energy of the best schedule; probability that a move of a
    # state with overflow splits the overflow; energy cap, above which no move raises the energy.
    figures: Floats
    # Number of events of ``current`` and ``best``; moves made; moves since the last adaptation of the penalties that
    # began over the budget, and that began late; repairs after a move that splits an overflow; whether those prefer
    # values that are in RAM because of the move.
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


_start_from = Function("start_from", Ref, Ref, Ref, Ref, Int, returns=Flag)
_anneal = Function("anneal", Ref, Ref, Ref, Ref, Ref, Ref, Int)
_reorder = Function("reorder", Ref, Ref, Ref, Ref, Ref, Int)


def start_from(problem: Problem, work: Workspace, state: State, events: Ints, length: int) -> bool:
    """Make ``events[:length]`` the current state. False, and nothing changes, if it is no schedule."""
    return bool(_start_from(problem, work, state, ints(events), length))


def anneal(
    problem: Problem,
    work: Workspace,
    other: Workspace,
    delta: DeltaEvaluation,
    spare: DeltaEvaluation,
    state: State,
    moves: int,
) -> None:
    """Make ``moves`` moves at falling temperature; the other arguments are scratch."""
    _anneal(problem, work, other, delta, spare, state, moves)


def reorder(
    problem: Problem, work: Workspace, other: Workspace, delta: DeltaEvaluation, state: State, moves: int
) -> None:
    """Shift events ``moves`` times; a shift that breaks a limit or raises the energy is rejected."""
    _reorder(problem, work, other, delta, state, moves)
