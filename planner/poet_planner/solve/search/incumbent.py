# SPDX-License-Identifier: Apache-2.0
"""Schedules that were found, with their energy, time and peak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.statistics import Component

MOST_RANKED = 64  # schedules kept in a ranking
SAME = 1e-12  # energies that differ by less are equal: relative


@dataclass(frozen=True)
class Incumbent:
    """A schedule as events (see `evaluation`), with its energy in joules, time in seconds and peak in bytes.

    ``source`` is the part of the optimiser that found it, or that made the start of the annealing pass that did; None
    where no part did.
    """

    events: Ints
    energy: float
    time: float
    peak: int
    source: Component | None = None


def evaluated(problem: Problem, events: Ints, source: Component | None = None) -> Incumbent | None:
    """The schedule of ``events``, which may break the limits; None if they are no schedule."""
    work = new_workspace(problem, np.ones(1, dtype=np.uint64), events=len(events))
    result = evaluate(problem, events, len(events), work)
    if result.length < 0:
        return None
    peak = int(work.memory[: result.length].max(initial=0))
    return Incumbent(work.kept[: result.length].copy(), float(result.energy), float(result.time), peak, source)


def keeps_limits(problem: Problem, one: Incumbent) -> bool:
    """Whether a schedule is within the RAM and the deadline."""
    return one.peak <= problem.budget and one.time <= problem.deadline


def cheapest(*found: Incumbent | None) -> Incumbent | None:
    """The one of least energy, the first among equals; None if there is none."""
    return min((one for one in found if one is not None), key=lambda one: one.energy, default=None)


def ranked(found: Iterable[Incumbent | None]) -> list[Incumbent]:
    """The `MOST_RANKED` cheapest, the cheapest first; equal sequences count once."""
    different = {one.events.tobytes(): one for one in found if one is not None}
    return sorted(different.values(), key=lambda one: one.energy)[:MOST_RANKED]


def same(energy: float, other: float) -> bool:
    """Whether two energies are equal, up to the order in which they were summed; as in `native/evaluation.h`."""
    return abs(energy - other) <= SAME * other
