# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a sequence of events: its energy, time, RAM and lifetimes (docs/optimiser/search.md).

An *event* is a number: ``j`` computes node j, ``n + v`` pages value v in. The other steps of the schedule semantics
(docs/SPEC.md, section 4) follow from the events: a value that is ever paged in is paged out right after its producer's
first compute, and a value is freed after its last use. One backward pass finds all of this, and drops every event that
nothing needs. With DMA, a forward pass adds the makespan.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from poet_planner.solve.engine import Float, Function, Int, Ref, Struct, ints, struct
from poet_planner.solve.instance import Floats, Ints, Problem, zeros


@struct
class Workspace(Struct):
    """The sequence that was evaluated last, and scratch arrays. All arrays are allocated once.

    A *place* is a position in the sequence. A *touch* of a value is an event that makes or uses it.
    """

    candidate: Ints  # the sequence to be evaluated next
    # kept, memory: the needed events, and the bytes of RAM at each.
    kept: Ints
    memory: Ints
    live: Ints  # bytes of the values in RAM just before each event
    # touch_start, touch_place, touch_live: value v's touches are ``touch_place[touch_start[v]:touch_start[v + 1]]``;
    # whether it is in RAM just after each; filled by `index_touches`.
    touch_start: Ints
    touch_place: Ints
    touch_live: Ints
    extra: Ints  # places of the extra events (recomputations and page-ins), the last one first
    # life_value, life_start, life_end: lifetimes: value, place after which it is in RAM, place of its last use; the
    # latest start first.
    life_value: Ints
    life_start: Ints
    life_end: Ints
    last_use: Ints  # (m,) place of the next use, seen from the backward pass; -1 if there is none
    # total, seen: (n,) number of computes of each node, and how many of them the backward pass has met.
    total: Ints
    seen: Ints
    source: Ints  # (n,) 1 once the backward pass has met a page-in of a value of the node
    paged: Ints  # (m,) number of page-ins of each value
    stamp: Ints  # (m,) marks; a mark counts if it equals ``counters[STAMP]``
    first: Ints  # (n,) place of each node's first compute; filled by `index_touches`
    inserted: Ints  # the events that a restore puts in, the last one first; it puts in no more than there is room for
    # ending, next_ending: lists of the lifetimes that end at each place.
    ending: Ints
    next_ending: Ints
    leaving: Ints  # values whose transfer still runs after their last use
    # arrives, let_go: (m,) time in seconds at which a page-in has ended, and at which the last transfer has.
    arrives: Floats
    let_go: Floats
    counters: Ints  # number of extra events, number of lifetimes, current mark
    random: np.ndarray[tuple[int], np.dtype[np.uint64]]  # (1,) state of the random number generator


# Stands for the RAM at an event where the RAM is not limited.
UNCOUNTED = -(1 << 50)

MOST_RESTORED = 48  # events that one restore puts in

# Entries of Workspace.counters.
EXTRAS, LIVES, STAMP = 0, 1, 2


class Evaluation(NamedTuple):
    """Of a sequence: number of needed events (-1: no schedule), joules, seconds, bytes over the budget, summed."""

    length: int
    energy: float
    time: float
    overflow: float


def new_workspace(problem: Problem, random: np.ndarray[tuple[int], np.dtype[np.uint64]], events: int = 0) -> Workspace:
    """A workspace for sequences of up to `capacity` events, or ``events`` if that is more.

    It shares ``random``, the state of the random number generator.
    """
    n, m = len(problem.node_time), len(problem.size)
    events = max(events, capacity(problem))
    width = int(np.diff(problem.output_start).max(initial=1))
    touches = -(-(m + len(problem.input_value)) // max(n, 1)) + 1

    return Workspace(
        candidate=zeros(events),
        kept=zeros(events),
        memory=zeros(events),
        live=zeros(events + 1),
        touch_start=zeros(m + 2),
        touch_place=zeros(events * touches),
        touch_live=zeros(events * touches),
        extra=zeros(events),
        life_value=zeros(events * width),
        life_start=zeros(events * width),
        life_end=zeros(events * width),
        last_use=zeros(m),
        total=zeros(n),
        seen=zeros(n),
        source=zeros(n),
        paged=zeros(m),
        stamp=zeros(m),
        first=zeros(n),
        inserted=zeros(MOST_RESTORED),
        ending=zeros(events),
        next_ending=zeros(events * width),
        leaving=zeros(m + 1),
        arrives=np.zeros(m),
        let_go=np.zeros(m),
        counters=zeros(3),
        random=random,
    )


def capacity(problem: Problem) -> int:
    """Maximum length of a sequence of events."""
    return 24 * len(problem.node_time) + 256


class CEvaluation(ctypes.Structure):
    """`Evaluation`, as C has it."""

    _fields_ = (("length", Int), ("energy", Float), ("time", Float), ("overflow", Float))


_evaluate = Function("evaluate", Ref, Ref, Int, Ref, returns=CEvaluation)


def evaluate(problem: Problem, events: Ints, length: int, work: Workspace) -> Evaluation:
    """Evaluate ``events[:length]`` in a backward pass.

    ``work`` receives the needed events, their RAM, and the lifetimes.
    """
    found = _evaluate(problem, ints(events), length, work)
    return Evaluation(found.length, found.energy, found.time, found.overflow)
