"""One relaxation, settled: its own search says what is worth looking for, its LP and its MILP prove the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poet_planner.solve.bound import Relaxation, events_of, relaxation
from poet_planner.solve.branching import explore
from poet_planner.solve.conflicts import Conflicts
from poet_planner.solve.linear_model import LinearModel
from poet_planner.solve.milp import seconds_to_state, solve_milp
from poet_planner.solve.problem import Flags, Ints, Problem
from poet_planner.solve.root import Branch, Root
from poet_planner.solve.search import Incumbent, Searches, measured, moves_per_second
from poet_planner.solve.solvers import Solver

# Effort in seconds of searching, and as shares of the time left.
SEARCH_S = 0.5
SEARCH_SHARE = 0.1
REFINE_S = 0.3
ROOT_SHARE = 0.6
MILP_SHARE = 0.7
PATIENCE = 6
LP_SAFETY = 1e-3


class Level:
    """The order-free relaxation with the RAM limited at some instants.

    The least energy of the relaxation is below that of the problem, and what a search finds for it is a cutoff: nothing
    above needs to be looked at, which fixes most of the model. The bound is never above the cutoff.

    Parameters
    ----------
    instants : (n,) flags of nodes on ``path``
    known : Incumbent
        The best schedule of the problem so far.
    conflicts : Conflicts
        The model knows of them, the search of the relaxation does not.
    gap : float
        As in `OptimiseOptions`.
    """

    def __init__(
        self,
        problem: Problem,
        path: Ints,
        instants: Flags,
        known: Incumbent,
        conflicts: Conflicts,
        gap: float,
        seed: int,
    ) -> None:
        self._problem = problem
        self._conflicts = conflicts
        self._solution: Ints | None = None
        self._instants = path[instants[path]]
        self._known = known
        self._gap = gap
        self._search = Searches(problem._replace(instant=instants), seed)
        self._beyond = False
        self._plain_j = float(problem.node_energy.sum())
        self._scale = 1.0
        self.bound_j = self._plain_j

    @property
    def events(self) -> Ints:
        """The best schedule of the relaxation that was found, as events (see `annealing`)."""
        return self._best().events if self._solution is None else self._solution

    @property
    def undercuts(self) -> bool:
        """Whether the relaxation is known to have a schedule that the problem may not have."""
        return self._best().energy < self._known.energy * (1 - self._gap)

    def search(self, start: Ints, seconds_left: Callable[[], float], go_on: Callable[[], bool]) -> None:
        """Look for good schedules of the relaxation, from the events ``start`` and from plain training."""
        self._search.adopt(start)
        end_s = seconds_left() * (1 - SEARCH_SHARE)
        moves = int(SEARCH_S * moves_per_second(self._problem))
        self._search.run(moves, lambda: go_on() and seconds_left() > end_s)

    def prove(self, solver: Solver, seconds_left: Callable[[], float], hear: Callable[[float], bool]) -> None:
        """Raise the bound until the relaxation is settled or the time is up.

        What the search found for the relaxation is the cutoff. Where the model has nothing below because it knows of
        conflicts, the best schedule of the problem is, in a second go.

        Parameters
        ----------
        hear : callable
            Told the bound in joules now and then; False ends the work.
        """
        self._settle(solver, seconds_left, hear)
        settled = self.bound_j > self._best().energy * (1 - 2 * self._gap)
        if settled and self.undercuts and self._conflicts.pairs.any():
            self._beyond = True
            self._settle(solver, seconds_left, hear)

    def _settle(self, solver: Solver, seconds_left: Callable[[], float], hear: Callable[[float], bool]) -> None:
        problem = self._problem
        relaxed = relaxation(problem, self._instants, self._most().energy, self._conflicts)
        self._scale = relaxed.scale
        root = Root(problem, relaxed)
        end_s = seconds_left() * (1 - ROOT_SHARE)

        def go_on() -> float:
            return seconds_left() - end_s if hear(self.bound_j) else 0.0

        def tightened(branch: Branch) -> Branch:
            return root.tighten(branch, self._cutoff, go_on, self._raise, PATIENCE)

        whole = tightened(root.whole())
        if whole.bound < self._cutoff() and not self._beyond and self._follow(events_of(problem, relaxed, whole.point)):
            whole = tightened(whole)
        branches = explore(root, whole, relaxed.model.cost, self._cutoff, go_on, self._raise)
        # The lowest bound comes last, and has what time the others leave: it is the one that counts.
        self._settle_branches(relaxed, root, branches[::-1], solver, seconds_left, hear)

    def _settle_branches(
        self,
        relaxed: Relaxation,
        root: Root,
        branches: list[Branch],
        solver: Solver,
        seconds_left: Callable[[], float],
        hear: Callable[[float], bool],
    ) -> None:
        """Raise the bound to the least of all branches, one MILP after the other."""
        bounds = [branch.bound for branch in branches]
        for k, branch in enumerate(branches):
            if branch.bound >= self._cutoff():
                continue
            model = root.model(branch)
            if not hear(self.bound_j) or seconds_left() < seconds_to_state(model):
                return
            others = min(bounds[:k] + bounds[k + 1 :], default=np.inf)

            def told(bound: float, others: float = others) -> bool:
                self._raise(min(bound, others))
                return hear(self.bound_j)

            share = (MILP_SHARE if self.undercuts else 1.0) / (len(branches) - k)
            bounds[k] = max(bounds[k], self._milp(relaxed, model, solver, share * seconds_left(), told))
        self._raise(min(bounds, default=np.inf))

    def _milp(
        self,
        relaxed: Relaxation,
        model: LinearModel,
        solver: Solver,
        seconds: float,
        told: Callable[[float], bool],
    ) -> float:
        """Bound of one branch by the MILP solver; its best solution goes to the search."""
        cutoff = self._cutoff()
        # In units of the model, in which plain training costs SCALE.
        absolute_gap = max(1e-6, 0.05 * self._gap * self._most().energy * self._scale)
        answer = solve_milp(model, solver, seconds, absolute_gap, cutoff, told)
        if answer.infeasible or answer.bound >= cutoff:
            return cutoff
        for x in answer.solutions[-1:]:
            events = events_of(self._problem, relaxed, x)
            self._search.adopt(events)
            if measured(self._problem, events) is not None:
                self._solution = events
        return answer.bound

    def _best(self) -> Incumbent:
        found = self._search.incumbent
        return self._known if found is None or found.energy > self._known.energy else found

    def _most(self) -> Incumbent:
        """No schedule that costs more is looked for."""
        return self._known if self._beyond else self._best()

    def _cutoff(self) -> float:
        """The same in units of the model."""
        return (self._most().energy * (1 - 0.9 * self._gap) - self._plain_j) * self._scale

    def _raise(self, bound: float) -> None:
        bound = min(bound, self._cutoff())
        if np.isfinite(bound):
            bound_j = self._plain_j + (bound - LP_SAFETY) / self._scale
            self.bound_j = max(self.bound_j, bound_j)

    def _follow(self, events: Ints) -> bool:
        """Search on from where the LP points; whether that found anything better."""
        before_j = self._best().energy
        if self._search.adopt(events):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)))
        return self._best().energy < before_j
