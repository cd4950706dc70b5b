# SPDX-License-Identifier: Apache-2.0
"""The proof: raises the lower bound until it meets the best schedule.

The bounding methods of `bounding` run first, then the relaxation is refined (`relaxation.refinement`). A search goes on
beside both, and it also starts from their solutions. See docs/optimiser/overview.md, "The pipeline".
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import numpy as np

from poet_planner.solve.bounding import (
    LEAST_S,
    AddedWindows,
    BoundingMethod,
    Downsets,
    Known,
    LargeStateSpace,
    RetainedSets,
    StateSpace,
    aggregated,
)
from poet_planner.solve.instance import Flags, Ints, Problem, graph_size
from poet_planner.solve.milp.failure import put_down
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.relaxation.event_points import bottleneck_event_points, minimal_event_points, overflowing
from poet_planner.solve.relaxation.refinement import RefinementStep
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import SAME, Incumbent, evaluated, ranked
from poet_planner.solve.search.portfolio import SEEDS, BackgroundWorker, Portfolio
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path

# Seconds are reference seconds (`time_budget`).
TINY = 60  # graphs up to this size are searched beside no step: the first search does, and a proof is quick
BACKGROUND_S = 6.0  # effort of a search beside a step of the proof
BACKGROUND_SHARE = 0.25  # the same at least, beside a relaxation: fraction of the work left
FIRST_BACKGROUND_S = 3.0  # the same beside the first, quick steps
DOWNSETS_S_PER_NODE = 0.003  # the same beside downsets: seconds a node
REFINE_S = 0.3  # effort of the search from where a step points
BETWEEN_S = 1.0  # effort of the search between two relaxations
BETWEEN_SHARE = 0.1  # the same at most: fraction of the work left
WORTH_PROVING = 0.9  # no relaxation is solved where a larger fraction of the bound's gap lies beyond its optimum


class Proof:
    """Raises the bound until it meets the best schedule.

    With minimal event points it begins with these, and refines them from the LP: for proofs with a small margin, in
    which each needless event point costs the MILP solver much time.
    """

    def __init__(
        self,
        problem: Problem,
        search: Portfolio,
        solver: Solver,
        gap: float,
        seed: int,
        with_minimal_event_points: bool = False,
        context: Context | None = None,
    ) -> None:
        self._context = context or Context()
        self._problem = problem
        self._search = search
        self._solver = solver
        self._gap = gap
        self._seed = seed
        self._with_minimal_event_points = with_minimal_event_points
        self._path = longest_path(problem)
        self._proofs = 0
        self._background_found: list[Incumbent] = []
        self._downsets = Downsets(problem, self._context)
        self._retained = RetainedSets(problem, self._context.has(Component.AGGREGATION))
        self._spaces: LargeStateSpace | None = None
        self._windows = AddedWindows(problem)
        # Where the relaxation goes on, and whether it does: not once its last event points are proven as far as may be.
        self._event_points: Flags | None = None
        self._is_refined = not self._context.has(Component.RELAXATION)
        self.bound_j = float(problem.node_energy.sum())  # a lower bound on the energy of every schedule, in joules

    @property
    def found(self) -> list[Incumbent]:
        """Schedules that were found, the cheapest first."""
        return ranked([*self._search.found, *self._background_found])

    @property
    def complete(self) -> bool:
        """Whether the gap asked for is reached."""
        incumbent = self._search.incumbent
        return incumbent is not None and self.bound_j >= incumbent.energy * (1 - max(self._gap, SAME))

    @property
    def closed_share(self) -> float:
        """The fraction of the best schedule's overhead that the bound has closed."""
        return 1.0 if self._search.incumbent is None else self._now().closed_share

    def run(self, budget: TimeBudget) -> None:
        """Work until the gap is reached, nothing raises the bound any more, or the time is up.

        The search must have found a schedule. Another run goes on where this one ended.
        """
        budget = budget.until(lambda: self.complete)
        self._run_bounding_methods(budget)
        if not self._is_refined:
            with self._context.timed(Component.RELAXATION), put_down(self._context.statistics):
                self._refine_relaxation(budget)

    def bound_large_graph(self, budget: TimeBudget) -> None:
        """Raise the bound of a large graph by downsets, with a search beside it that takes about as long.

        The search must have found a schedule.
        """
        budget = budget.until(lambda: self.complete)
        if self._is_open(self._downsets, budget):
            with self._background_search(DOWNSETS_S_PER_NODE * len(self._problem.node_time), budget):
                self._run_method(self._downsets, budget)

    def _run_bounding_methods(self, budget: TimeBudget) -> None:
        """Run the bounding methods: all of them once with few states, then with more states those that are worth it."""
        while self._run_method(self._retained, budget):
            pass
        if self.complete or not self._context.has(Component.STATE_SPACE):
            return
        if self._spaces is None:
            self._spaces = LargeStateSpace(self._state_spaces())
        if any(self._is_open(space, budget) for space in self._spaces.tried):
            with self._background_search(FIRST_BACKGROUND_S, budget):
                for space in self._spaces.tried:
                    self._run_method(space, budget)
        if self._is_open(self._windows, budget):
            with self._background_search(BACKGROUND_S, budget):
                self._run_method(self._windows, budget)
        self._spaces.go_on()
        while self._is_open(self._spaces, budget):
            with self._background_search(BACKGROUND_S, budget):
                self._run_method(self._spaces, budget)

    def _state_spaces(self) -> list[StateSpace]:
        """Those that are worth a try: of the values by themselves, and of cheap ones in groups."""
        separate = np.arange(len(self._problem.size))
        representative = aggregated(self._problem, self._now(), self._context.has(Component.AGGREGATION))
        spaces = [StateSpace(self._problem, separate)]
        if (representative != separate).any():
            spaces.append(StateSpace(self._problem, representative, Component.AGGREGATION))
        return spaces

    def _is_open(self, method: BoundingMethod, budget: TimeBudget) -> bool:
        """Whether a method is switched on, applies, and has time left."""
        return self._context.has(method.part) and budget.left() >= LEAST_S and method.applies(self._now())

    def _run_method(self, method: BoundingMethod, budget: TimeBudget) -> bool:
        """Run a method once; whether it was open."""
        if not self._is_open(method, budget):
            return False
        part = method.part
        with self._context.timed(part):
            gain = method.improve(self._now(), budget.share(method.share))
        self._adopted(gain.schedule, part)
        self._raise(gain.bound_j, part)
        if gain.near is not None:
            self._follow(gain.near, part, budget)
        return True

    def _now(self) -> Known:
        return Known(self.bound_j, float(self._problem.node_energy.sum()), self._known())

    def _refine_relaxation(self, budget: TimeBudget) -> None:
        """Solve relaxations at more and more event points, until none of the path is missing."""
        events = self._known().events
        while not budget.expired:
            event_points = self._first_event_points() if self._event_points is None else self._event_points
            step = RefinementStep(
                self._problem,
                self._path,
                event_points,
                self._known(),
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
            overflowing_node = step.most_overflowing(raising) if self._with_minimal_event_points else None
            if overflowing_node is not None:
                overflow = np.array([overflowing_node])
            elif not step.undercuts or event_points[overflow].all():
                self._prove_step(step, raising)
                if budget.expired:
                    return
                overflow = overflowing(self._problem, self._path, step.events)
                if event_points[overflow].all():
                    self._is_refined = True
                    return
                self._search_between(budget)
            events = step.events
            self._event_points = event_points.copy()
            self._event_points[overflow] = True

    def _first_event_points(self) -> Flags:
        """The event points of the first relaxation: few nodes of the path, or all of them. (n,)"""
        if self._context.has(Component.EVENT_POINTS):
            with self._context.timed(Component.EVENT_POINTS):
                choose = minimal_event_points if self._with_minimal_event_points else bottleneck_event_points
                return choose(self._problem, self._path)
        everywhere: Flags = np.zeros(len(self._problem.node_time), dtype=np.bool_)
        everywhere[self._path] = True
        return everywhere

    def _adopted(self, events: Ints | None, source: Component) -> Incumbent | None:
        """Let the search go on from ``events``, if they are a schedule in time and not too long; the schedule."""
        best = None if events is None else evaluated(self._problem, events)
        if best is None or best.time > self._problem.deadline:
            return None
        if not self._search.adopt(best.events, self._context.credited(source)):
            return None
        return best

    def _prove_step(self, step: RefinementStep, budget: TimeBudget) -> None:
        """Solve the relaxation of the step, with a search in the background: LP and MILP keep one core busy.

        A relaxation that can hardly raise the bound is skipped.
        """
        seconds = max(BACKGROUND_S, BACKGROUND_SHARE * budget.left())
        with self._background_search(seconds, budget):
            try:
                if step.share_beyond < WORTH_PROVING:
                    step.prove(budget)
            finally:
                self._raise_by(step)
        if not self.complete:
            self._follow(step.events, Component.RELAXATION, budget)

    @contextmanager
    def _background_search(self, seconds: float, budget: TimeBudget) -> Generator[None, None, None]:
        """Anneal in the background for the moves of ``seconds``, or of half of what is left.

        The result is accepted once all moves are made, unless the gap is reached before. Tiny graphs do without, so
        that no proof waits for it.
        """
        is_tiny = graph_size(self._problem) <= TINY
        if is_tiny or not self._context.has(Component.BACKGROUND_SEARCH) or budget.expired:
            yield
            return
        seconds = min(seconds, budget.left() / 2)
        annealer = self._background_annealer(self._proofs)
        self._proofs += 1
        # What is done within comes out of what this leaves, and so does not depend on which thread is faster.
        budget.spend(seconds)
        worker = BackgroundWorker(annealer, int(seconds * moves_per_second(self._problem)))
        try:
            yield
            worker.wait(budget)
        finally:
            worker.stop()
            if not self.complete:
                self._background_found = ranked([*self._background_found, *annealer.found])
        budget.spend(worker.work.done_s - seconds)
        found = annealer.incumbent
        if found is not None and not self.complete and found.energy < self._known().energy:
            self._search.adopt(found.events, found.source)

    def _background_annealer(self, number: int) -> Annealer:
        """Every third starts from the best schedule, the others from store-all schedules."""
        context = self._context.within(Component.BACKGROUND_SEARCH)
        annealer = Annealer(self._problem, SEEDS * (self._seed + 1) + number, self._search.orders(number), context)
        if number % 3 == 0:
            annealer.adopt(self._known().events, self._known().source)
        return annealer

    def _known(self) -> Incumbent:
        incumbent = self._search.incumbent
        assert incumbent is not None
        return incumbent

    def _follow(self, events: Ints, source: Component, budget: TimeBudget) -> None:
        """Search on at low temperature from ``events``. What is found is credited to ``source``."""
        if self._search.adopt(events, self._context.credited(source)):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)), budget)

    def _raise(self, bound_j: float, part: Component) -> None:
        before_j = self.bound_j
        self.bound_j = max(before_j, min(bound_j, self._known().energy))
        # A proof on behalf of another part has another problem, so its bounds are not comparable.
        if self.bound_j > before_j and self._context.on_behalf_of is None:
            self._context.statistics.raised(part, self.bound_j - before_j)

    def _raise_by(self, step: RefinementStep) -> None:
        self._raise(step.bound_j, step.raised_by)

    def _search_between(self, budget: TimeBudget) -> None:
        """Search between two relaxations."""
        moves = int(BETWEEN_S * moves_per_second(self._problem))
        self._search.run(moves, budget.share(BETWEEN_SHARE))
