# SPDX-License-Identifier: Apache-2.0
"""The portfolio: annealers with different seeds side by side, and a background worker (docs/optimiser/search.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, cheapest, evaluated, keeps_limits, ranked
from poet_planner.solve.search.orders import frugal_order
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

SEEDS = 2  # annealers side by side
WAIT_S = 0.02  # seconds between two checks of the time budget


class BackgroundWorker:
    """Runs annealers in a thread of its own, one after the other, each for ``moves`` moves.

    Attributes
    ----------
    first : Annealer or None
        The first annealer.
    best : Incumbent or None
        The best schedule of all annealers so far.
    """

    def __init__(self, annealers: Iterable[Annealer], moves: int) -> None:
        self.first: Annealer | None = None
        self.best: Incumbent | None = None
        self._found: list[Incumbent] = []
        self._first_ended = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(annealers, moves), daemon=True)
        self._thread.start()

    def wait(self, budget: TimeBudget = UNLIMITED) -> None:
        """Wait until the first annealer has made all its moves, or the budget has expired; then stop."""
        while not self._first_ended.wait(WAIT_S) and not budget.expired:
            pass
        self.stop()

    def stop(self) -> list[Incumbent]:
        """Stop; returns what all annealers have found, the cheapest first."""
        self._stop.set()
        self._thread.join()
        return self._found

    def _work(self, annealers: Iterable[Annealer], moves: int) -> None:
        try:
            for annealer in annealers:
                self.first = self.first or annealer
                annealer.run(moves, UNLIMITED.until(self._stop.is_set).noting(partial(self._note, annealer)))
                self._note(annealer)
                self._found = ranked([*self._found, *annealer.found])
                self._first_ended.set()
                if self._stop.is_set():
                    return
        finally:
            self._first_ended.set()

    def _note(self, annealer: Annealer) -> None:
        self.best = cheapest(self.best, annealer.incumbent)


class Portfolio:
    """Annealers with different seeds, each in a thread of its own. All continue from the best result.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules, unless a budget ends a call early.
    orders : sequence of (n,)
        As in `Annealer`.
    context : Context or None
        As in `Annealer`.
    """

    def __init__(
        self, problem: Problem, seed: int, orders: Sequence[Ints] = (), context: Context | None = None
    ) -> None:
        self._problem = problem
        self._context = context or Context()
        self._seed = seed
        self._orders = orders
        self._annealers = self._new_annealers()

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        return cheapest(*(annealer.incumbent for annealer in self._accepted))

    @property
    def found(self) -> list[Incumbent]:
        """The best schedule so far, and others; the cheapest first."""
        return ranked(one for annealer in self._accepted for one in annealer.found)

    def orders(self, number: int) -> Sequence[Ints]:
        """The orders for an annealer: where `begin_with_orders` has found one, every second annealer starts from it."""
        return self._orders if number % 2 == 0 else self._orders[::-1]

    def begin_with_orders(self, budget: TimeBudget = UNLIMITED) -> None:
        """Begin with a store-all schedule that needs little RAM. If it keeps the limits, it is an optimum.

        If it does not, its order is one to start from.
        """
        if not self._context.has(Part.ORDERS):
            return
        with self._context.timed(Part.ORDERS):
            order = frugal_order(self._problem, self._seed, budget, self._context.params.orders)
            found = evaluated(self._problem, order, self._context.credited(Part.ORDERS))
        if found is not None and keeps_limits(self._problem, found):
            self._annealers[0].keep(found)
        elif (order[1:] < order[:-1]).any():
            self._orders = [np.arange(len(order), dtype=np.int64), order]
            self._annealers = self._new_annealers()

    def adopt(self, events: Ints, source: Part | None = None) -> bool:
        """Let the first annealer continue from ``events``, which ``source`` found.

        False, and nothing changes, if they are no schedule.
        """
        return self._annealers[0].adopt(events, source)

    def adopt_all(self, events: Ints, source: Part | None = None) -> None:
        """Let each annealer continue from ``events``, if they are a schedule."""
        for annealer in self._annealers:
            annealer.adopt(events, source)

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Let the first annealer continue at low temperature."""
        self._annealers[0].refine(moves, budget)

    def repair(self, events: Ints, budget: TimeBudget, source: Part) -> None:
        """Repair ``events``, which may exceed the budget, and keep the result. It is credited to ``source``.

        No annealer continues from it yet.
        """
        params = self._context.params.annealing
        for number in range(params.repairers):
            annealer = Annealer(self._problem, SEEDS * self._seed + number, context=self._context.within(source))
            keep = partial(self._keep, annealer)
            if annealer.adopt(events, self._context.credited(source)) and not budget.expired:
                annealer.refine(int(params.repair_s * moves_per_second(self._problem)), budget.noting(keep))
                keep()
            if self.incumbent is not None:
                return

    def run(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Run each annealer for ``moves`` moves. The budget is checked in this thread.

        If the first annealer finds a schedule that costs no more than the store-all schedule, the run ends. If another
        does, only that one ends. So the result does not depend on which thread is faster.
        """
        if self._annealers[0].has_least:
            return
        self._share_best()
        workers = [BackgroundWorker([annealer], moves) for annealer in self._annealers[1:]]
        try:
            self._annealers[0].run(moves, budget)
            for worker in workers:
                worker.wait(budget.until(lambda: self._annealers[0].has_least))
        finally:
            for worker in workers:
                worker.stop()

    def _new_annealers(self) -> list[Annealer]:
        return [Annealer(self._problem, SEEDS * self._seed + k, self.orders(k), self._context) for k in range(SEEDS)]

    def _keep(self, annealer: Annealer) -> None:
        self._annealers[0].keep(annealer.incumbent)

    @property
    def _accepted(self) -> list[Annealer]:
        """The annealers whose results count: only the first, if it ended the run and stopped the others midway."""
        return self._annealers[:1] if self._annealers[0].has_least else self._annealers

    def _share_best(self) -> None:
        incumbent = self.incumbent
        if incumbent is not None:
            self.adopt_all(incumbent.events, incumbent.source)
