# SPDX-License-Identifier: Apache-2.0
"""Search and bound feed each other: relaxations are settled, the coarsest first, and send the search on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import numpy as np

from poet_planner.solve.bounding import (
    Bottlenecks,
    Bounder,
    Known,
    LargeStateSpace,
    MilpNeighbourhood,
    RetainedSets,
    StateSpace,
    aggregated,
)
from poet_planner.solve.instance import Flags, Ints, Problem
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.event_points import bottleneck_event_points, minimal_event_points, overflowing
from poet_planner.solve.relaxation.refinement import RefinementStep
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, cheapest, measured, ranked
from poet_planner.solve.search.portfolio import SEEDS, BackgroundWorker, Portfolio
from poet_planner.solve.statespace.exhaustive import cheapest_events
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path

# More than there ever are: an odd number, so that the repair strategies of searches beside one proof take turns.
MOST_PROOFS = 1001


class Proof:
    """Raises the bound until it meets the best schedule.

    Parameters
    ----------
    lean : bool
        Begin with minimal event points, and refine them from the LP. For proofs with a small margin, in which each
        needless event point costs the MILP solver much time.
    context : Context or None
        As in `Annealer`.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule of the contract, in joules.
    """

    def __init__(
        self,
        problem: Problem,
        search: Portfolio,
        solver: Solver,
        gap: float,
        seed: int,
        lean: bool = False,
        context: Context | None = None,
    ) -> None:
        self._context = context or Context()
        self._params = self._context.params.proof
        self._problem = problem
        self._search = search
        self._solver = solver
        self._gap = gap
        self._seed = seed
        self._lean = lean
        self._path = longest_path(problem)
        self._proofs = 0
        self._aside: BackgroundWorker | None = None
        self._beside: list[Incumbent] = []
        self.bound_j = float(problem.node_energy.sum())

    @property
    def best(self) -> Incumbent | None:
        """The best schedule so far, be it of a search beside that is not heard: which of them end, the clock says."""
        beside = self._aside.best if self._aside else None
        return cheapest(self._search.incumbent, *self._beside[:1], beside)

    @property
    def found(self) -> list[Incumbent]:
        """Schedules that were found, the cheapest first; after a proof those only that do not depend on the clock."""
        return self._search.found if self.complete else ranked([*self._search.found, *self._beside])

    @property
    def complete(self) -> bool:
        """Whether the gap asked for is reached."""
        incumbent = self._search.incumbent
        return incumbent is not None and self.bound_j >= incumbent.energy * (1 - self._gap) - 1e-15

    @property
    def closed_share(self) -> float:
        """The bound's share of the overhead of the best schedule."""
        return 1.0 if self._search.incumbent is None else self._now().closed_share

    def exhaust(self, budget: TimeBudget) -> None:
        """Find the best schedule of a tiny graph.

        Transfers beside compute matter to the deadline alone: without one a shortest path tells the least energy, and
        the best schedule is found where it meets the deadline.
        """
        if not self._context.has(Part.EXHAUSTIVE):
            return
        problem = self._problem
        with self._context.timed(Part.EXHAUSTIVE):
            events = cheapest_events(problem._replace(deadline=np.inf, dma=False) if problem.dma else problem, budget)
        best = self._adopted(events, Part.EXHAUSTIVE)
        if best is not None:
            self._raise(best.energy, Part.EXHAUSTIVE)

    def run(self, budget: TimeBudget) -> None:
        """Work until proof, until the relaxation has no more to say, or until the time is up.

        The search must have found a schedule.
        """
        budget = budget.until(lambda: self.complete)
        self._bound(budget)
        if self._context.has(Part.RELAXATION):
            with self._context.timed(Part.RELAXATION):
                self._relax(budget)

    def _bound(self, budget: TimeBudget) -> None:
        """Raise the bound without a relaxation: with few states, then with more where that is worth it."""
        aggregate = self._context.has(Part.AGGREGATION)
        params = self._context.params.state_space
        retained = RetainedSets(self._problem, self._context.params.retained_sets, aggregate)
        while self._improved(retained, budget):
            pass
        if self.complete:
            return
        apart, together = np.arange(len(self._problem.size)), aggregated(self._problem, self._now(), params, aggregate)
        spaces = [StateSpace(self._problem, params, apart)]
        if (together != apart).any():
            spaces.append(StateSpace(self._problem, params, together, Part.AGGREGATION))
        if not self._context.has(Part.STATE_SPACE):
            spaces = []
        bottlenecks = Bottlenecks(self._problem, params, together, aggregate, retained)
        quick: list[Bounder] = [MilpNeighbourhood(self._problem, self._solver), *spaces, bottlenecks]
        with self._searching_beside(self._params.first_background_s, budget):
            for bounder in quick:
                self._improved(bounder, budget)
        thorough: list[Bounder] = [LargeStateSpace(params, spaces), bottlenecks] if spaces else [bottlenecks]
        for bounder in thorough:
            while self._is_open(bounder, budget):
                with self._searching_beside(self._params.background_s, budget):
                    self._improved(bounder, budget)

    def _is_open(self, bounder: Bounder, budget: TimeBudget) -> bool:
        """Whether a method is on, and has anything to do yet."""
        return self._context.has(bounder.part) and not budget.expired and bounder.applies(self._now())

    def _improved(self, bounder: Bounder, budget: TimeBudget) -> bool:
        """Let a method work once; whether it had anything to do."""
        if not self._is_open(bounder, budget):
            return False
        part = bounder.part
        with self._context.timed(part):
            gain = bounder.improve(self._now(), budget.share(bounder.share))
        self._adopted(gain.schedule, part)
        self._raise(gain.bound_j, part)
        if gain.near is not None:
            self._follow(gain.near, part, budget)
        return True

    def _now(self) -> Known:
        return Known(self.bound_j, float(self._problem.node_energy.sum()), self._known())

    def _relax(self, budget: TimeBudget) -> None:
        """Settle relaxations, the coarsest first, until one has no more to say."""
        conflicts = self._conflicts()
        event_points = self._first_event_points()
        events = self._known().events
        while not budget.expired:
            step = RefinementStep(
                self._problem,
                self._path,
                event_points,
                self._known(),
                conflicts,
                self._solver,
                self._gap,
                self._seed,
                self.bound_j,
                self._context,
            )
            if not step.can_be_solved(budget):
                return
            raising = budget.noting(partial(self._raise_by, step))
            step.search(events, budget)
            overflow = overflowing(self._problem, self._path, step.events)
            overflowing_node = step.most_overflowing(raising) if self._lean else None
            if overflowing_node is not None:
                overflow = np.array([overflowing_node])
            elif not step.undercuts or event_points[overflow].all():
                self._settle(step, event_points, raising)
                overflow = overflowing(self._problem, self._path, step.events)
                if event_points[overflow].all():
                    return
                self._search_on(budget)
            events = step.events
            event_points = event_points.copy()
            event_points[overflow] = True

    def _conflicts(self) -> Conflicts:
        if not self._context.has(Part.CONFLICTS):
            return Conflicts(self._problem, look=False)
        with self._context.timed(Part.CONFLICTS):
            return Conflicts(self._problem)

    def _first_event_points(self) -> Flags:
        """Where the first relaxation limits the RAM: at few nodes of the path, or at all of them. (n,)"""
        if self._context.has(Part.EVENT_POINTS):
            with self._context.timed(Part.EVENT_POINTS):
                choose = minimal_event_points if self._lean else bottleneck_event_points
                return choose(self._problem, self._path, self._context.params.relaxation)
        everywhere: Flags = np.zeros(len(self._problem.node_time), dtype=np.bool_)
        everywhere[self._path] = True
        return everywhere

    def _adopted(self, events: Ints | None, source: Part) -> Incumbent | None:
        """Let the search go on from ``events``, where they are a schedule that is in time and not too long for it."""
        best = None if events is None else measured(self._problem, events)
        if best is None or best.time > self._problem.deadline:
            return None
        if not self._search.adopt(best.events, self._context.credited(source)):
            return None
        return best

    def _settle(self, step: RefinementStep, event_points: Flags, budget: TimeBudget) -> None:
        """Settle the step, with searches beside it: LP and MILP keep but one core busy.

        A step that can hardly raise the bound is not proven. Where no more event points would help, the proof goes on
        beyond the relaxation.
        """
        with self._searching_beside(self._params.background_s, budget):
            if step.share_beyond < self._context.params.relaxation.worth_proving:
                step.prove(budget)
            last = event_points[overflowing(self._problem, self._path, step.events)].all()
            beyond = last and step.undercuts and self._context.has(Part.STAGE_CUTS)
            if beyond and not budget.expired:
                with self._context.timed(Part.STAGE_CUTS):
                    step.prove_beyond(budget)
            self._raise_by(step)
        if not self.complete:
            self._follow(step.events, Part.RELAXATION, budget)

    @contextmanager
    def _searching_beside(self, seconds: float, budget: TimeBudget) -> Generator[None, None, None]:
        """Searches beside what is proven meanwhile, each for so many seconds.

        The first is heard when all of its moves are made, unless the proof makes it pointless, and those after it
        never: so that a seed gives the same plan. `best` has them all.
        """
        if not self._context.has(Part.BACKGROUND_SEARCH):
            yield
            return
        aside = BackgroundWorker(self._searches_beside(self._proofs), int(seconds * moves_per_second(self._problem)))
        self._aside = aside
        self._proofs += 1
        try:
            yield
            if self.complete:
                return
            aside.wait(budget)
        finally:
            self._beside = ranked([*self._beside, *aside.stop()])
        found = aside.first.incumbent if aside.first else None
        if found is not None and found.energy < self._known().energy:
            self._search.adopt(found.events, found.source)

    def _searches_beside(self, proof: int) -> Iterator[Annealer]:
        """One after the other without end: each third begins with the best schedule, the others with plain training."""
        for number in count(proof, MOST_PROOFS):
            context = self._context.within(Part.BACKGROUND_SEARCH)
            search = Annealer(self._problem, SEEDS * (self._seed + 1) + number, context=context)
            if number % 3 == 0:
                search.adopt(self._known().events, self._known().source)
            yield search

    def _known(self) -> Incumbent:
        incumbent = self._search.incumbent
        assert incumbent is not None
        return incumbent

    def _follow(self, events: Ints, source: Part, budget: TimeBudget) -> None:
        """Search on from where a relaxation points; what is found so is the work of ``source``."""
        if self._search.adopt(events, self._context.credited(source)):
            self._search.refine(int(self._params.refine_s * moves_per_second(self._problem)), budget)

    def _raise(self, bound_j: float, part: Part) -> None:
        before_j = self.bound_j
        self.bound_j = max(before_j, min(bound_j, self._known().energy))
        # On behalf of another part the problem is another one, too.
        if self.bound_j > before_j and self._context.on_behalf_of is None:
            self._context.statistics.raised(part, self.bound_j - before_j)

    def _raise_by(self, step: RefinementStep) -> None:
        self._raise(step.bound_j, step.raised_by)

    def _search_on(self, budget: TimeBudget) -> None:
        moves = int(self._params.between_s * moves_per_second(self._problem))
        self._search.run(moves, budget.share(self._params.between_share))
