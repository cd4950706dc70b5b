# SPDX-License-Identifier: Apache-2.0
"""Search and bound feed each other: relaxations are settled, the coarsest first, and send the search on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem, size
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.event_points import fewest_instants, first_instants, overflowing
from poet_planner.solve.relaxation.refinement import Level
from poet_planner.solve.search.annealer import Search, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, cheapest, measured, ranked
from poet_planner.solve.search.milp_neighbourhood import cheapest_choice, with_alternatives
from poet_planner.solve.search.portfolio import SEEDS, Aside, Searches
from poet_planner.solve.statespace.aggregation import taken_together
from poet_planner.solve.statespace.astar import search_between_checkpoints, search_contents
from poet_planner.solve.statespace.exhaustive import cheapest_events
from poet_planner.solve.statespace.retained_sets import search_what_stays
from poet_planner.solve.topology import longest_path

REFINE_S = 0.3
# States of a view of what RAM holds, for a graph of one node, value and edge: at first, and for a small graph where
# that closes so much of the overhead; of the time left, the share for each.
FEW_STATES = 1e7
MANY_STATES = 2e8
MOST_STATES = 500_000
SMALL = 600
CLOSE = 0.6
FEW_SHARE = 0.1
MANY_SHARE = 0.6
# The same between checkpoints, for any graph.
FEW_STATES_BETWEEN = 20_000
MOST_STATES_BETWEEN = 1_000_000
# Of the overhead: what a node may cost whose values are taken together with others in coarser views.
CHEAP_SHARE = 0.005
# Searching on between one level and the next.
BETWEEN_S = 1.0
BETWEEN_SHARE = 0.1
# Searching beside a proof, and before that beside the first count of what RAM holds.
ASIDE_S = 6.0
ASIDE_FEW_S = 3.0
# More than there ever are: an odd number, so that searches beside one proof differ in manner.
MOST_PROOFS = 1001
# Of the time left, for choosing anew what the best schedule brings back.
CHOICE_SHARE = 0.06
# Share of what the bound lacks; a level that leaves more to what comes after it is not worth its proof.
NOT_WORTH = 0.9


class Proof:
    """Raises the bound until it meets the best schedule.

    Parameters
    ----------
    lean : bool
        The RAM is limited at as few instants as the LP can do with: for a known energy just below which there may be
        nothing, where a MILP solver has to go through all that is left.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule of the contract, in joules.
    """

    def __init__(
        self, problem: Problem, search: Searches, solver: Solver, gap: float, seed: int, lean: bool = False
    ) -> None:
        self._problem = problem
        self._search = search
        self._solver = solver
        self._gap = gap
        self._seed = seed
        self._lean = lean
        self._path = longest_path(problem)
        self._proofs = 0
        self._aside: Aside | None = None
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
        incumbent, plain_j = self._search.incumbent, float(self._problem.node_energy.sum())
        if incumbent is None or incumbent.energy <= plain_j:
            return 1.0
        return (self.bound_j - plain_j) / (incumbent.energy - plain_j)

    def exhaust(self, tell: Callable[[], bool]) -> None:
        """Find the best schedule of a tiny graph.

        Transfers beside compute matter to the deadline alone: without one a shortest path tells the least energy, and
        the best schedule is found where it meets the deadline.

        Parameters
        ----------
        tell : callable
            Called now and then; False ends the work.
        """
        problem = self._problem
        events = cheapest_events(problem._replace(deadline=np.inf, dma=False) if problem.dma else problem, tell)
        best = self._adopted(events)
        if best is not None:
            self._raise(best.energy)

    def run(self, seconds_left: Callable[[], float], tell: Callable[[], bool]) -> None:
        """Work until proof, until the relaxation has no more to say, or until the time is up.

        The search must have found a schedule.

        Parameters
        ----------
        tell : callable
            Called now and then; False ends the work.
        """

        def hear(bound_j: float) -> bool:
            self._raise(bound_j)
            return tell() and not self.complete

        self._search_contents(seconds_left, hear)
        conflicts = Conflicts(self._problem)
        instants = (fewest_instants if self._lean else first_instants)(self._problem, self._path)
        events = self._known().events
        while tell() and not self.complete:
            level = Level(
                self._problem, self._path, instants, self._known(), conflicts, self._gap, self._seed, self.bound_j
            )
            level.search(events, seconds_left, tell)
            overflow = overflowing(self._problem, self._path, level.events)
            missed = level.missed(seconds_left, hear) if self._lean else None
            if missed is not None:
                overflow = np.array([missed])
            elif not level.undercuts or instants[overflow].all():
                self._settle(level, instants, seconds_left, hear)
                overflow = overflowing(self._problem, self._path, level.events)
                if instants[overflow].all():
                    return
                self._search_on(seconds_left, tell)
            events = level.events
            instants = instants.copy()
            instants[overflow] = True

    def _search_contents(self, seconds_left: Callable[[], float], hear: Callable[[float], bool]) -> None:
        """Raise the bound by what RAM can hold; with more effort where the graph is small and that closes much.

        With all values apart, and with some taken together; then as that which raised the bound last.
        """
        done = self._search_what_stays(hear)
        if self.complete:
            return
        apart = np.arange(len(self._problem.size))
        together = taken_together(self._problem, self._cheap_j())
        best = apart
        with self._searching_beside(ASIDE_FEW_S, seconds_left, hear):
            if self._problem.pageable.any():
                self._choose(seconds_left, hear)
            for first in [apart, together] if (together != apart).any() else [apart]:
                before_j = self.bound_j
                self._count_contents(first, FEW_STATES, FEW_SHARE, seconds_left, hear)
                best = first if self.bound_j > before_j else best
            tight = (
                not self._problem.pageable.any()
                and not done
                and self._search_between_checkpoints(together, FEW_STATES_BETWEEN, FEW_SHARE, seconds_left, hear)
            )
        better = size(self._problem) <= SMALL
        while better and hear(self.bound_j) and self.closed_share > CLOSE:
            known_j = self._known().energy
            with self._searching_beside(ASIDE_S, seconds_left, hear):
                self._count_contents(best, MANY_STATES, MANY_SHARE, seconds_left, hear)
            better = self._known().energy < known_j
        if tight and hear(self.bound_j):
            with self._searching_beside(ASIDE_S, seconds_left, hear):
                self._search_between_checkpoints(together, MOST_STATES_BETWEEN, MANY_SHARE, seconds_left, hear)

    def _choose(self, seconds_left: Callable[[], float], hear: Callable[[float], bool]) -> None:
        """Choose anew what the best schedule brings back, all at once.

        A graph whose transfers cost much less than its computes may be proven as soon as the bound has them all: what
        is best among transfers is only found before.
        """
        known = self._known()
        sequence = with_alternatives(self._problem, known.events)
        seconds = CHOICE_SHARE * seconds_left()
        go_on = self._for_share(CHOICE_SHARE, seconds_left, hear)
        self._adopted(cheapest_choice(self._problem, sequence, known.energy, self._solver, seconds, go_on))

    def _count_contents(
        self, first: Ints, states: float, share: float, seconds_left: Callable[[], float], hear: Callable[[float], bool]
    ) -> None:
        most_states = min(MOST_STATES, int(states / size(self._problem)))
        go_on = self._for_share(share, seconds_left, hear)
        found = search_contents(self._problem, first, self.bound_j, self._known().energy, most_states, go_on)
        self._adopted(found.events)
        self._raise(found.bound_j)

    def _search_what_stays(self, hear: Callable[[float], bool]) -> bool:
        """Raise the bound where hardly more fits than the hungriest nodes take; whether that says all it can."""
        for apart in (False, True):
            known_j = self._known().energy
            found = search_what_stays(self._problem, known_j, lambda: hear(self.bound_j), apart)
            if found is None:
                return False
            self._raise(found.bound_j)
            if found.events is None:
                return apart or self.complete
            self._follow(found.events)
        return True

    def _search_between_checkpoints(
        self,
        together: Ints,
        most_states: int,
        share: float,
        seconds_left: Callable[[], float],
        hear: Callable[[float], bool],
    ) -> bool:
        """Raise the bound where little more fits than the hungriest nodes take; whether more effort is worth it.

        The cheapest way with some values taken together is no schedule yet, but near one.
        """
        closely = taken_together(self._problem, self._cheap_j(), closely=True)
        go_on = self._for_share(share, seconds_left, hear)
        known_j, plain_j = self._known().energy, float(self._problem.node_energy.sum())
        found = search_between_checkpoints(self._problem, together, closely, known_j, most_states, go_on)
        self._raise(found.bound_j)
        if found.events is not None:
            self._follow(found.events)
        return found.events is None and found.bound_j - plain_j > CLOSE * (known_j - plain_j)

    def _cheap_j(self) -> float:
        """Energy of a node whose values may be taken together with others."""
        return CHEAP_SHARE * (self._known().energy - float(self._problem.node_energy.sum()))

    def _for_share(
        self, share: float, seconds_left: Callable[[], float], hear: Callable[[float], bool]
    ) -> Callable[[], bool]:
        """Tells and goes on until so much of the time left is spent."""
        end_s = seconds_left() * (1 - share)
        return lambda: hear(self.bound_j) and seconds_left() > end_s

    def _adopted(self, events: Ints | None) -> Incumbent | None:
        """Let the search go on from ``events``, where they are a schedule that is in time and not too long for it."""
        best = None if events is None else measured(self._problem, events)
        if best is None or best.time > self._problem.deadline or not self._search.adopt(best.events):
            return None
        return best

    def _settle(
        self, level: Level, instants: Flags, seconds_left: Callable[[], float], hear: Callable[[float], bool]
    ) -> None:
        """Settle the level, with searches beside it: LP and MILP keep but one core busy.

        A level that can hardly raise the bound is not proven. Where no more instants would help, the proof goes on
        beyond the relaxation.
        """
        with self._searching_beside(ASIDE_S, seconds_left, hear):
            if level.share_beyond < NOT_WORTH:
                level.prove(self._solver, seconds_left, hear)
            last = instants[overflowing(self._problem, self._path, level.events)].all()
            if last and level.undercuts and hear(level.bound_j):
                level.prove_beyond(self._solver, seconds_left, hear)
            self._raise(level.bound_j)
        if not self.complete:
            self._follow(level.events)

    @contextmanager
    def _searching_beside(
        self, seconds: float, seconds_left: Callable[[], float], hear: Callable[[float], bool]
    ) -> Generator[None, None, None]:
        """Searches beside what is proven meanwhile, each for so many seconds.

        The first is heard when all of its moves are made, unless the proof makes it pointless, and those after it
        never: so that a seed gives the same plan. `best` has them all.
        """
        aside = Aside(self._searches_beside(self._proofs), int(seconds * moves_per_second(self._problem)))
        self._aside = aside
        self._proofs += 1
        try:
            yield
            if self.complete:
                return
            aside.wait(lambda: hear(self.bound_j) and seconds_left() > 0)
        finally:
            self._beside = ranked([*self._beside, *aside.stop()])
        found = aside.first.incumbent if aside.first else None
        if found is not None and found.energy < self._known().energy:
            self._search.adopt(found.events)

    def _searches_beside(self, proof: int) -> Iterator[Search]:
        """One after the other without end: each third begins with the best schedule, the others with plain training."""
        for number in count(proof, MOST_PROOFS):
            search = Search(self._problem, SEEDS * (self._seed + 1) + number)
            if number % 3 == 0:
                search.adopt(self._known().events)
            yield search

    def _known(self) -> Incumbent:
        incumbent = self._search.incumbent
        assert incumbent is not None
        return incumbent

    def _follow(self, events: Ints) -> None:
        """Search on from where the relaxation points."""
        if self._search.adopt(events):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)))

    def _raise(self, bound_j: float) -> None:
        self.bound_j = max(self.bound_j, min(bound_j, self._known().energy))

    def _search_on(self, seconds_left: Callable[[], float], tell: Callable[[], bool]) -> None:
        end_s = (1 - BETWEEN_SHARE) * seconds_left()
        moves = int(BETWEEN_S * moves_per_second(self._problem))
        self._search.run(moves, lambda: tell() and seconds_left() > end_s)
