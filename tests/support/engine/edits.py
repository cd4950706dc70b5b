# SPDX-License-Identifier: Apache-2.0
"""The engine's functions on edits, which only the annealing in C calls otherwise (`native/delta_evaluation.h`)."""

from __future__ import annotations

from poet_planner.solve.engine import Flag, Function, Int, Ref
from poet_planner.solve.instance import Problem
from poet_planner.solve.search.delta_evaluation import DeltaEvaluation
from poet_planner.solve.search.evaluation import CEvaluation, Evaluation, Workspace

PER_PLACE = 64
LAST = PER_PLACE - 1
LEFT_OUT = -1
DROPPED = -(1 << 60)

# Entries of DeltaEvaluation.counters.
EDITS, CHANGES = range(2)

_index_touches = Function("index_touches", Ref, Ref, Int, returns=Flag)
_clear_edits = Function("clear_edits", Ref, Ref, Int)
_leave_out = Function("leave_out", Ref, Int, returns=Flag)
_put_in = Function("put_in", Ref, Int, Int, returns=Flag)
_take_back = Function("take_back", Ref, Int)
_write_edited = Function("write_edited", Ref, Ref, Int, returns=Int)
_live_before = Function("live_before", Ref, Ref, Int, Int, returns=Flag)
_next_use = Function("next_use", Ref, Ref, Ref, Int, Int, returns=Int)
_room_for = Function("room_for", Ref, Ref, Ref, Int, returns=Flag)
_evaluate_edits = Function("evaluate_edits", Ref, Ref, CEvaluation, Ref, returns=CEvaluation)


def index_touches(problem: Problem, work: Workspace, length: int) -> bool:
    """Find all touches in the evaluated sequence. False if there are more than the workspace has room for."""
    return bool(_index_touches(problem, work, length))


def clear_edits(work: Workspace, delta: DeltaEvaluation, length: int) -> None:
    """Remove all edits; the old sequence is the one in ``work``."""
    _clear_edits(work, delta, length)


def leave_out(delta: DeltaEvaluation, place: int) -> bool:
    """Add an edit: leave out the event at ``place``. False if there are too many edits."""
    return bool(_leave_out(delta, place))


def put_in(delta: DeltaEvaluation, key: int, event: int) -> bool:
    """Add an edit: put in ``event`` right before ``key``. False if there are too many edits."""
    return bool(_put_in(delta, key, event))


def take_back(delta: DeltaEvaluation, edit: int) -> None:
    """Remove one edit."""
    _take_back(delta, edit)


def write_edited(work: Workspace, delta: DeltaEvaluation, length: int) -> int:
    """Write the edited sequence to ``work.candidate``; returns its length, or -1 if it is too long."""
    return int(_write_edited(work, delta, length))


def live_before(work: Workspace, delta: DeltaEvaluation, key: int, v: int) -> bool:
    """Whether v is in RAM just before ``key``, in the edited sequence."""
    return bool(_live_before(work, delta, key, v))


def next_use(problem: Problem, work: Workspace, delta: DeltaEvaluation, key: int, v: int) -> int:
    """Key of the first event after ``key`` that uses v, in the edited sequence; -1 if there is none."""
    return int(_next_use(problem, work, delta, key, v))


def room_for(problem: Problem, work: Workspace, delta: DeltaEvaluation, place: int) -> bool:
    """Whether the extra event at ``place`` seems unnecessary."""
    return bool(_room_for(problem, work, delta, place))


def evaluate_edits(problem: Problem, work: Workspace, old: Evaluation, delta: DeltaEvaluation) -> Evaluation:
    """Evaluate the edited sequence; ``old`` is the evaluation of the old one."""
    found = _evaluate_edits(problem, work, CEvaluation(*old), delta)
    return Evaluation(found.length, found.energy, found.time, found.overflow)
