# SPDX-License-Identifier: Apache-2.0
"""Methods that raise the bound, or improve the schedule, before a relaxation is solved. All have one signature.

`Proof` runs those that are switched on, in order, and records what each gained. See docs/optimiser/state_space.md
and docs/optimiser/relaxation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from poet_planner.solve.instance import Ints, Problem, graph_size, working_set_bytes
from poet_planner.solve.relaxation.downsets import search_downsets
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.statespace.aggregation import representatives
from poet_planner.solve.statespace.astar import search_memory_states, without_dear_pages
from poet_planner.solve.statespace.reduction import reduced
from poet_planner.solve.statespace.retained_sets import search_retained_sets
from poet_planner.solve.statespace.windows import Windows
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import TimeBudget

# The sizes of graphs are their nodes, values and edges together.
FEW_STATES = 1e7  # first search of the state space: states of an abstraction times the size of the graph
MANY_STATES = 2e8  # search again, if the graph is small and the bound close: the same
MOST_STATES = 500_000  # states of an abstraction in either
FEW_SHARE = 0.1  # first search: fraction of the work left
MANY_SHARE = 0.6  # search again: fraction of the work left
SMALL = 600  # a graph is small up to this size
TIGHT = 0.5  # RAM is tight where the largest working set takes more: fraction of it
MOST_TIGHT = 2500  # largest size of a graph whose states are searched again because RAM is tight
WINDOW_STATES = 50_000  # states of a window
WINDOWS_SHARE = 0.5  # for windows: fraction of the work left
LITTLE = 0.004  # for windows a value up to this size takes no RAM: fraction of the budget
CLOSE = 0.6  # a bound is close that has closed more than this: fraction of the overhead
CHEAP = 0.005  # values of a node up to this energy may be aggregated: fraction of the overhead
LEAST_S = 1e-3  # less is no time: reference seconds
LARGE = 600  # downsets are for graphs above this size
DOWNSETS_SHARE = 0.3  # fraction of the work left


class Known(NamedTuple):
    """The state of the proof."""

    bound_j: float  # the lower bound, in joules
    store_all_j: float  # E0: energy of computing every node once, in joules
    incumbent: Incumbent  # the best schedule

    @property
    def overhead_j(self) -> float:
        """Energy of the best schedule above E0."""
        return self.incumbent.energy - self.store_all_j

    @property
    def closed_share(self) -> float:
        """The fraction of the overhead that the bound has closed."""
        return (self.bound_j - self.store_all_j) / self.overhead_j if self.overhead_j > 0 else 1.0


class Gain(NamedTuple):
    """The result of a method."""

    bound_j: float = 0.0  # a lower bound on the energy of every schedule, in joules
    schedule: Ints | None = None  # events (see `evaluation`) of a schedule, which may be late
    near: Ints | None = None  # events close to a schedule: a start for the search


class BoundingMethod(Protocol):
    """Raises the bound or improves the schedule. It may remember earlier calls."""

    @property
    def part(self) -> Component:
        """The part of the optimiser that it belongs to."""

    @property
    def share(self) -> float:
        """Time of one call: fraction of the time left."""

    def applies(self, known: Known) -> bool:
        """Whether to call `improve`, or to call it again."""

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        """Work until nothing is left to do or the budget has expired."""


@dataclass
class RetainedSets:
    """Shortest paths over retained sets, for RAM that barely exceeds the largest working set."""

    problem: Problem
    aggregate: bool  # whether the first call aggregates values
    part: Component = Component.RETAINED_SETS
    share: float = 1.0
    _open: bool = True

    def applies(self, known: Known) -> bool:
        return self._open

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        separate = not self.aggregate
        found = search_retained_sets(self.problem, known.incumbent.energy, budget, separate)
        self.aggregate = self.aggregate and _is_spent(budget)
        # If a path over aggregated values is found, the next call does not aggregate.
        self._open = _is_spent(budget) or (not separate and found is not None and found.events is not None)
        if found is None:
            return Gain()
        return Gain(found.bound_j, near=found.events)


@dataclass
class StateSpace:
    """A shortest path over memory states by a hierarchy of abstractions, with few states."""

    problem: Problem
    # (m,) the first value of each value's group (see `aggregation`) in all abstractions but the last.
    representative: Ints
    part: Component = Component.STATE_SPACE
    share: float = FEW_SHARE
    raised: bool = False  # whether it has raised the bound
    _open: bool = True

    def applies(self, known: Known) -> bool:
        return self._open

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        gain = self.explored(known, FEW_STATES, budget)
        self._open = _is_spent(budget)
        self.raised = self.raised or gain.bound_j > known.bound_j
        return gain

    def explored(self, known: Known, states: float, budget: TimeBudget) -> Gain:
        """Search with so many states; ``states`` is that number times the size of the graph."""
        most_states = min(MOST_STATES, int(states / graph_size(self.problem)))
        energy_j = known.incumbent.energy
        try:
            found = search_memory_states(
                self.problem, self.representative, known.bound_j, energy_j, most_states, budget
            )
        except MemoryError:  # no plan fails for want of a bound
            return Gain()
        return Gain(found.bound_j, schedule=found.events)


@dataclass
class LargeStateSpace:
    """The same with many states, for small graphs with a close bound. It runs again after each better schedule."""

    tried: list[StateSpace]  # the last of them that raised the bound is run, or the first if none did
    share: float = MANY_SHARE
    _known_j: float = np.inf
    _is_cut: bool = False

    @property
    def part(self) -> Component:
        return self._best.part

    @property
    def _best(self) -> StateSpace:
        return next((one for one in reversed(self.tried) if one.raised), self.tried[0])

    def applies(self, known: Known) -> bool:
        better = known.incumbent.energy < self._known_j
        problem = self.tried[0].problem
        close = graph_size(problem) <= SMALL and known.closed_share > CLOSE
        return better and (close or is_tight(problem))

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        self._known_j = known.incumbent.energy
        gain = self._best.explored(known, MANY_STATES, budget)
        self._is_cut = _is_spent(budget)
        return gain

    def go_on(self) -> None:
        """In another stage: run again if it ran out of time."""
        if self._is_cut:
            self._known_j = np.inf


@dataclass
class AddedWindows:
    """What is paid in windows between first computes, of a smaller problem, where RAM is tight and values are paged."""

    problem: Problem
    part: Component = Component.STATE_SPACE
    share: float = WINDOWS_SHARE
    _open: bool = True

    def applies(self, known: Known) -> bool:
        return self._open and bool(self.problem.pageable.any()) and is_tight(self.problem)

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        limit_j = known.overhead_j
        smaller = reduced(without_dear_pages(self.problem, limit_j), int(LITTLE * self.problem.budget))
        if not (smaller.size > 0).any():
            self._open = False
            return Gain()
        try:
            bounds_j = [0.0, *Windows(smaller, limit_j, WINDOW_STATES).raised(budget)]
        except MemoryError:
            return Gain()
        self._open = _is_spent(budget)
        return Gain(known.store_all_j + max(bounds_j))


@dataclass
class Downsets:
    """The RAM when the last node of a downset is first computed, for large graphs.

    Other methods prove small graphs to the end, and whether they run depends on how close the bound is.
    """

    problem: Problem
    context: Context
    part: Component = Component.DOWNSETS
    share: float = DOWNSETS_SHARE
    _open: bool = True

    def applies(self, known: Known) -> bool:
        return self._open and graph_size(self.problem) > LARGE

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        left_s = budget.left()
        bound_j = search_downsets(self.problem, known.overhead_j, budget, self.context)
        self._open = _is_spent(budget) or budget.left() == left_s  # where it had too little to begin
        return Gain(bound_j)


def is_tight(problem: Problem) -> bool:
    """Whether the largest working set takes most of the RAM, and the graph is not too large for many states."""
    most = int(working_set_bytes(problem).max(initial=0))
    return graph_size(problem) <= MOST_TIGHT and most > TIGHT * problem.budget


def _is_spent(budget: TimeBudget) -> bool:
    """Whether a method ended for want of time: what counts steps leaves less than one."""
    return budget.left() < LEAST_S


def aggregated(problem: Problem, known: Known, aggregate: bool) -> Ints:
    """The first value of the group of each value (see `representatives`); without ``aggregate`` itself. (m,)"""
    if not aggregate:
        return np.arange(len(problem.size))
    return representatives(problem, CHEAP * known.overhead_j)
