# SPDX-License-Identifier: Apache-2.0
"""Searches side by side: of several seeds, and beside other work."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.annealer import Search, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, cheapest, ranked
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

SEEDS = 2  # annealers side by side
WAIT_S = 0.02  # between two looks at the budget: seconds


class Aside:
    """Annealers at work in a thread of its own, one after the other: ``search.run(moves)`` of each.

    Attributes
    ----------
    first : Search or None
        The one that began.
    best : Incumbent or None
        The best schedule that any has found so far.
    """

    def __init__(self, searches: Iterable[Search], moves: int) -> None:
        self.first: Search | None = None
        self.best: Incumbent | None = None
        self._found: list[Incumbent] = []
        self._first_ended = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(searches, moves), daemon=True)
        self._thread.start()

    def wait(self, budget: TimeBudget = UNLIMITED) -> None:
        """Until the first has made all its moves, or until the budget has expired; either ends the work."""
        while not self._first_ended.wait(WAIT_S) and not budget.expired:
            pass
        self.stop()

    def stop(self) -> list[Incumbent]:
        """End it; returns what all have found, the cheapest first."""
        self._stop.set()
        self._thread.join()
        return self._found

    def _work(self, searches: Iterable[Search], moves: int) -> None:
        try:
            for search in searches:
                self.first = self.first or search
                search.run(moves, UNLIMITED.until(self._stop.is_set).noting(partial(self._note, search)))
                self._note(search)
                self._found = ranked([*self._found, *search.found])
                self._first_ended.set()
                if self._stop.is_set():
                    return
        finally:
            self._first_ended.set()

    def _note(self, search: Search) -> None:
        self.best = cheapest(self.best, search.incumbent)


class Searches:
    """Annealers with different seeds, each in a thread of its own; what one finds best, all go on from.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules, as long as no call is ended early.
    order : (n,) or None
        As in `Search`.
    context : Context or None
        As in `Search`.
    """

    def __init__(self, problem: Problem, seed: int, order: Ints | None = None, context: Context | None = None) -> None:
        self._problem = problem
        self._context = context or Context()
        self._searches = [Search(problem, SEEDS * seed + k, order, self._context) for k in range(SEEDS)]
        self._seed = seed

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        return cheapest(*(search.incumbent for search in self._heard))

    @property
    def found(self) -> list[Incumbent]:
        """The best schedule so far, and others: the cheapest first."""
        return ranked(one for search in self._heard for one in search.found)

    def adopt(self, events: Ints, source: Part | None = None) -> bool:
        """Let the first annealer go on from ``events``, which ``source`` found.

        False, and nothing changes, if they are no schedule.
        """
        return self._searches[0].adopt(events, source)

    def adopt_all(self, events: Ints, source: Part | None = None) -> None:
        """Let each annealer go on from ``events``, where they are a schedule."""
        for search in self._searches:
            search.adopt(events, source)

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Let the first annealer search on at low temperature."""
        self._searches[0].refine(moves, budget)

    def repair(self, events: Ints, budget: TimeBudget, source: Part) -> None:
        """Keep what ``events``, which may need more RAM than there is, are repaired to on behalf of ``source``.

        No annealer goes on from it yet.
        """
        params = self._context.params.annealing
        for number in range(params.repairers):
            search = Search(self._problem, SEEDS * self._seed + number, context=self._context.within(source))
            keep = partial(self._keep, search)
            if search.adopt(events, self._context.credited(source)) and not budget.expired:
                search.refine(int(params.repair_s * moves_per_second(self._problem)), budget.noting(keep))
                keep()
            if self.incumbent is not None:
                return

    def run(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal all of them for ``moves`` moves each; the budget is asked in this thread.

        A schedule of the first that costs no more than plain training ends the run; one of another only that one. What
        is found then does not depend on which of them was faster.
        """
        self._share_best()
        asides = [Aside([search], moves) for search in self._searches[1:]]
        try:
            self._searches[0].run(moves, budget)
            for aside in asides:
                aside.wait(budget.until(lambda: self._searches[0].has_least))
        finally:
            for aside in asides:
                aside.stop()

    def _keep(self, search: Search) -> None:
        self._searches[0].keep(search.incumbent)

    @property
    def _heard(self) -> list[Search]:
        """All but those that were stopped midway because the first needed no help."""
        return self._searches[:1] if self._searches[0].has_least else self._searches

    def _share_best(self) -> None:
        incumbent = self.incumbent
        if incumbent is not None:
            self.adopt_all(incumbent.events, incumbent.source)
