"""Search and bound feed each other: the order-free MILP proves, and sends the search to better places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poet_planner.solve.bound import Relaxation, events_of, longest_path, relaxation
from poet_planner.solve.exact import cheapest_events
from poet_planner.solve.milp import seconds_to_state, solve_milp
from poet_planner.solve.problem import Floats, Ints, Problem, node_need
from poet_planner.solve.root import Root
from poet_planner.solve.search import Searches, moves_per_second
from poet_planner.solve.solvers import Solver

# Shares of the largest need that a node must have for its first compute to be an instant: few instants make a small
# model that is tightened fast, all of them the tightest one.
INSTANT_SHARES = (0.35, 0.0)
COARSE_TIME_SHARE = 0.3
FINE_TIME_SHARE = 0.45
REFINE_S = 0.3
# Searching on between one relaxation and the next.
BETWEEN_S = 4.0
BETWEEN_SHARE = 0.25
LP_SAFETY = 1e-3


class Proof:
    """Raises the bound until it meets the best schedule.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule of the contract, in joules.
    """

    def __init__(self, problem: Problem, search: Searches, solver: Solver, gap: float) -> None:
        self._problem = problem
        self._search = search
        self._solver = solver
        self._gap = gap
        self._plain_j = float(problem.node_energy.sum())
        self._path = longest_path(problem)
        self.bound_j = self._plain_j

    @property
    def complete(self) -> bool:
        """Whether the gap asked for is reached."""
        incumbent = self._search.incumbent
        return incumbent is not None and self.bound_j >= incumbent.energy * (1 - self._gap) - 1e-15

    def run(self, seconds_left: Callable[[], float], tell: Callable[[], bool]) -> None:
        """Work until proof or until the time is up.

        Parameters
        ----------
        tell : callable
            Called now and then; False ends the work.
        """
        events = cheapest_events(self._problem, tell)
        if events is not None and self._search.adopt(events):
            self.bound_j = self._best_j()
            return
        roots: list[tuple[Relaxation, Root]] = []
        for share, time_share in zip(INSTANT_SHARES, (COARSE_TIME_SHARE, FINE_TIME_SHARE), strict=True):
            if self.complete or not tell():
                return
            end_s = seconds_left() * (1 - time_share)
            relaxed = relaxation(self._problem, self._instants(share), self._best_j())
            root = Root(self._problem, relaxed)
            roots.append((relaxed, root))
            root.tighten(
                lambda relaxed=relaxed: self._cutoff(relaxed),  # type: ignore[misc]
                lambda end_s=end_s: seconds_left() - end_s if tell() else 0.0,  # type: ignore[misc]
                lambda root=root, relaxed=relaxed: self._raise(root.bound, relaxed),  # type: ignore[misc]
            )
            if np.isfinite(root.bound) and not self.complete:
                self._follow(relaxed, root.point)
                self._search_on(seconds_left, tell)
        relaxed, root = max(roots, key=lambda pair: pair[1].bound)
        while not self.complete and seconds_left() > seconds_to_state(relaxed.model) and tell():
            before_j = self._best_j()
            self._branch(relaxed, root, seconds_left, tell)
            if self._best_j() >= before_j:
                return

    def _search_on(self, seconds_left: Callable[[], float], tell: Callable[[], bool]) -> None:
        end_s = (1 - BETWEEN_SHARE) * seconds_left()
        moves = int(BETWEEN_S * moves_per_second(self._problem))
        self._search.run(moves, lambda: tell() and seconds_left() > end_s)

    def _branch(
        self, relaxed: Relaxation, root: Root, seconds_left: Callable[[], float], tell: Callable[[], bool]
    ) -> None:
        cutoff = self._cutoff(relaxed)

        def hear(bound: float) -> bool:
            self._raise(min(bound, cutoff), relaxed)
            return tell() and not self.complete

        absolute_gap = max(1e-6, self._gap * self._best_j() * relaxed.scale)
        answer = solve_milp(root.model(), self._solver, seconds_left(), absolute_gap, hear)
        self._raise(cutoff if answer.infeasible else min(answer.bound, cutoff), relaxed)
        for x in answer.solutions[::-1][:3]:
            self._follow(relaxed, x)

    def _instants(self, share: float) -> Ints:
        need = node_need(self._problem)[self._path]
        chosen: Ints = self._path[need >= share * need.max(initial=0)]
        return chosen

    def _best_j(self) -> float:
        incumbent = self._search.incumbent
        return np.inf if incumbent is None else incumbent.energy

    def _cutoff(self, relaxed: Relaxation) -> float:
        """Above this, in units of the model, no schedule is wanted."""
        return (self._best_j() * (1 - 0.9 * self._gap) - self._plain_j) * relaxed.scale

    def _raise(self, bound: float, relaxed: Relaxation) -> None:
        if np.isfinite(bound):
            bound_j = self._plain_j + (bound - LP_SAFETY) / relaxed.scale
            self.bound_j = max(self.bound_j, min(bound_j, self._best_j()))

    def _follow(self, relaxed: Relaxation, x: Floats) -> None:
        """Search on from where the relaxation points."""
        if self._search.adopt(events_of(self._problem, relaxed, x)):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)))
