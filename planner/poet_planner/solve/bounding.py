# SPDX-License-Identifier: Apache-2.0
"""Ways to raise the bound, or to better the schedule, before a relaxation is solved: all of one signature.

`Proof` runs them in order, where they are on, and puts down what each came to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from poet_planner.solve.instance import Ints, Problem, size
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.params import RetainedSetParams, StateSpaceParams
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.milp_neighbourhood import cheapest_choice, with_alternatives
from poet_planner.solve.statespace.aggregation import representatives
from poet_planner.solve.statespace.astar import search_between_bottlenecks, search_memory_states
from poet_planner.solve.statespace.retained_sets import search_retained_sets
from poet_planner.solve.statistics import Part
from poet_planner.solve.time_budget import TimeBudget

# States of the search between bottleneck nodes, for any graph: at first, and again if that is worth it.
FEW_STATES_BETWEEN = 20_000
MOST_STATES_BETWEEN = 1_000_000
CHOICE_SHARE = 0.06  # for the MILP neighbourhood: fraction of the time left


class Known(NamedTuple):
    """What is known: a lower bound and the store-all schedule's energy in joules, and the best schedule."""

    bound_j: float
    plain_j: float
    incumbent: Incumbent

    @property
    def overhead_j(self) -> float:
        """Energy of the best schedule above the store-all schedule's."""
        return self.incumbent.energy - self.plain_j

    @property
    def closed_share(self) -> float:
        """The bound's share of the overhead of the best schedule."""
        return (self.bound_j - self.plain_j) / self.overhead_j if self.overhead_j > 0 else 1.0


class Gain(NamedTuple):
    """What a method came to.

    Attributes
    ----------
    bound_j : float
        No schedule costs less.
    schedule : events (see `evaluation`) of a schedule, which may be late
    near : events that are near a schedule: a start to search on from
    """

    bound_j: float = 0.0
    schedule: Ints | None = None
    near: Ints | None = None


class Bounder(Protocol):
    """A way to raise the bound or to better the schedule. It may remember what it came to."""

    @property
    def part(self) -> Part:
        """What it belongs to."""

    @property
    def share(self) -> float:
        """Of the time left, for one call."""

    def applies(self, known: Known) -> bool:
        """Whether to call it, or to call it again."""

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        """Work until there is no more to do, or the budget has expired."""


@dataclass
class RetainedSets:
    """What stays in RAM at the bottleneck nodes, where hardly more fits than these take.

    Attributes
    ----------
    aggregate : bool
        Whether to begin with some values as one.
    exhausted : bool
        Whether it has said all it can: the bound is as good as these sets make it.
    """

    problem: Problem
    params: RetainedSetParams
    aggregate: bool
    exhausted: bool = False
    part: Part = Part.RETAINED_SETS
    share: float = 1.0
    _open: bool = True

    def applies(self, known: Known) -> bool:
        return self._open

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        separate = not self.aggregate
        found = search_retained_sets(self.problem, known.incumbent.energy, budget, separate, self.params)
        self.aggregate = False
        # A path that holds some values as one may be followed by one that holds all apart.
        self._open = not separate and found is not None and found.events is not None
        if found is None:
            return Gain()
        self.exhausted = separate
        return Gain(found.bound_j, near=found.events)


@dataclass
class MilpNeighbourhood:
    """Choose anew what the best schedule brings back, all at once.

    A graph whose transfers cost much less than its computes may be proven as soon as the bound has them all: what is
    best among transfers is only found before.
    """

    problem: Problem
    solver: Solver
    part: Part = Part.MILP_NEIGHBOURHOOD
    share: float = CHOICE_SHARE

    def applies(self, known: Known) -> bool:
        return bool(self.problem.pageable.any())

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        sequence = with_alternatives(self.problem, known.incumbent.events)
        energy_j = known.incumbent.energy
        return Gain(schedule=cheapest_choice(self.problem, sequence, energy_j, self.solver, budget))


@dataclass
class StateSpace:
    """A shortest path over memory states, in coarser views first, with few states.

    Attributes
    ----------
    first : (m,) of the values that each is one with in the coarser views, the first made (see `aggregation`)
    raised : bool
        Whether it has raised the bound.
    """

    problem: Problem
    params: StateSpaceParams
    first: Ints
    part: Part = Part.STATE_SPACE
    raised: bool = False

    @property
    def share(self) -> float:
        return self.params.few_share

    def applies(self, known: Known) -> bool:
        return True

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        gain = self.explored(known, self.params.few_states, budget)
        self.raised = gain.bound_j > known.bound_j
        return gain

    def explored(self, known: Known, states: float, budget: TimeBudget) -> Gain:
        """What so many states give, times nodes, values and edges of the graph."""
        most_states = min(self.params.most_states, int(states / size(self.problem)))
        energy_j = known.incumbent.energy
        found = search_memory_states(
            self.problem, self.first, known.bound_j, energy_j, most_states, budget, self.params
        )
        return Gain(found.bound_j, schedule=found.events)


@dataclass
class LargeStateSpace:
    """The same with many states, for a small graph whose bound is close; again after each better schedule.

    Attributes
    ----------
    tried : list of StateSpace
        Goes on as the last of those that has raised the bound, else as the first.
    """

    params: StateSpaceParams
    tried: list[StateSpace]
    _known_j: float = np.inf

    @property
    def share(self) -> float:
        return self.params.many_share

    @property
    def part(self) -> Part:
        return self._best.part

    @property
    def _best(self) -> StateSpace:
        return next((one for one in reversed(self.tried) if one.raised), self.tried[0])

    def applies(self, known: Known) -> bool:
        better = known.incumbent.energy < self._known_j
        small = size(self.tried[0].problem) <= self.params.small
        return better and small and known.closed_share > self.params.close

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        self._known_j = known.incumbent.energy
        return self._best.explored(known, self.params.many_states, budget)


@dataclass
class Bottlenecks:
    """A shortest path over memory states led by the bottleneck nodes: with few states, then, if worth it, with many.

    Its cheapest path with some values as one is no schedule yet, but near one.

    Attributes
    ----------
    first : (m,) as of `StateSpace`, at the bottleneck nodes
    aggregate : bool
        Whether to take some values as one between them, too.
    """

    problem: Problem
    params: StateSpaceParams
    first: Ints
    aggregate: bool
    retained: RetainedSets
    part: Part = Part.BOTTLENECK_HEURISTIC
    most_states: int = FEW_STATES_BETWEEN
    _worth_it: bool = True

    @property
    def share(self) -> float:
        return self.params.few_share if self.most_states == FEW_STATES_BETWEEN else self.params.many_share

    def applies(self, known: Known) -> bool:
        return self._worth_it and not self.problem.pageable.any() and not self.retained.exhausted

    def improve(self, known: Known, budget: TimeBudget) -> Gain:
        tightly = aggregated(self.problem, known, self.params, self.aggregate, tightly=True)
        energy_j = known.incumbent.energy
        found = search_between_bottlenecks(self.problem, self.first, tightly, energy_j, self.most_states, budget)
        closes = found.events is None and found.bound_j - known.plain_j > self.params.close * known.overhead_j
        self._worth_it = closes and self.most_states == FEW_STATES_BETWEEN
        self.most_states = MOST_STATES_BETWEEN
        return Gain(found.bound_j, near=found.events)


def aggregated(
    problem: Problem, known: Known, params: StateSpaceParams, aggregate: bool, tightly: bool = False
) -> Ints:
    """The first made of the values that each is taken as one with (see `representatives`); itself if none are. (m,)"""
    if not aggregate:
        return np.arange(len(problem.size))
    return representatives(problem, params.cheap * known.overhead_j, tightly)
