# SPDX-License-Identifier: Apache-2.0
"""Restoration and cover cuts of the order-free MILP, separated in the engine (`native/cover_cuts.c`).

The *interval* of value v after event point t consists of the stages t + 1 to tau. At some time of the interval v must
be in RAM. A *restoration cut* says that v is kept, or computed or paged in within the interval. A *cover cut* says that
of the values that exceed the RAM at an event point enough bytes are restored. Cover cuts are strengthened by
mixed-integer rounding (Marchand and Wolsey 2001).

See docs/optimiser/relaxation.md, "Cutting planes", for the proofs.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from poet_planner.solve.engine import Function, Int, Ref, Struct, struct
from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.relaxation.columns import Columns

COEFFICIENTS = 4  # room at first, for each column; more is made where it is needed


@struct
class Point(Struct):
    """A point of the LP."""

    # computed, paged: (stages + 1, n or m) sums over the stages before.
    computed: Floats
    paged: Floats
    # kept, out: (event points, m), (m,).
    kept: Floats
    out: Floats


class Cuts(NamedTuple):
    """Rows ``sum(coefficients * columns) >= 1``; row r begins at ``starts[r]``."""

    starts: Ints
    columns: Ints
    coefficients: Floats


NO_CUTS = Cuts(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


@struct
class _Separation(Struct):
    """What is separated, the room for cuts, and scratch."""

    problem: Problem
    columns: Columns
    point: Point
    # starts, numbers, coefficients: as `Cuts`.
    starts: Ints
    numbers: Ints
    coefficients: Floats
    # weights, touched: (columns,) coefficients of a row under construction, 0 before, and the columns that it has.
    weights: Floats
    touched: Ints
    # chains, restored: (stages, m) for each stage that intervals end with: the chain of each value, and how much the
    # point restores of it; those of stage 0 are scratch.
    chains: Ints
    restored: Floats
    # worst, worst_at: (stages, m) the violation of the most violated restoration cut, and its event point; -1: none.
    worst: Floats
    worst_at: Ints
    # group, amount, divisors: (m,) scratch: values of a cover, how much the point restores of each, their sizes.
    group: Ints
    amount: Floats
    divisors: Ints


class _CutCounts(ctypes.Structure):
    _fields_ = (("cuts", Int), ("coefficients", Int))


_separate = Function("separate", Ref, returns=_CutCounts)


def separate(problem: Problem, columns: Columns, x: Floats) -> Cuts:
    """The cuts that ``x`` violates: restoration cuts and cover cuts."""
    padded = np.append(x, 0.0)

    def running(numbers: Ints) -> Floats:
        sums: Floats = np.zeros((len(numbers) + 1, numbers.shape[1]))
        np.cumsum(padded[numbers], axis=0, out=sums[1:])
        return sums

    point = Point(running(columns.compute), running(columns.page_in), padded[columns.keep], padded[columns.page_out])
    room = COEFFICIENTS * len(x)
    while True:
        task = _separation(problem, columns, point, len(x), room)
        found = _separate(task)
        if found.coefficients <= room:
            break
        room = found.coefficients
    filled = slice(found.coefficients)
    return Cuts(task.starts[: found.cuts + 1], task.numbers[filled], task.coefficients[filled])


def _separation(problem: Problem, columns: Columns, point: Point, width: int, room: int) -> _Separation:
    m, stages = len(problem.size), len(columns.event_points) + 1
    return _Separation(
        problem,
        columns,
        point,
        starts=np.zeros(stages * (m + 1) + 1, dtype=np.int64),
        numbers=np.empty(room, dtype=np.int64),
        coefficients=np.empty(room),
        weights=np.zeros(width),
        touched=np.empty(width, dtype=np.int64),
        chains=np.zeros((stages, m), dtype=np.int64),
        restored=np.zeros((stages, m)),
        worst=np.zeros((stages, m)),
        worst_at=np.full((stages, m), -1, dtype=np.int64),
        group=np.empty(m, dtype=np.int64),
        amount=np.empty(m),
        divisors=np.empty(m, dtype=np.int64),
    )
