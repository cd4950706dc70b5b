# SPDX-License-Identifier: Apache-2.0
"""The portfolio: annealers with different seeds side by side, and a background worker (docs/optimiser/search.md)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from math import inf

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, cheapest, evaluated, keeps_limits, ranked
from poet_planner.solve.search.orders import frugal_order
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import UNLIMITED, WAIT_S, TimeBudget, Work

SEEDS = 2  # annealers side by side
BEGINNING = 1_000_003  # seeds between annealers that begin anew
ORDERS_SHARE = 0.1  # for orders at most: fraction of the work left
REPAIRERS = 4  # annealers that try to repair a schedule, one after the other
REPAIR_S = 0.3  # effort of each of them: reference seconds


class BackgroundWorker:
    """Lets an annealer run in a thread of its own.

    ``most_s`` and ``enough_s`` are as of `own_budget`.
    """

    def __init__(self, annealer: Annealer, moves: int, most_s: float = inf, enough_s: float = inf) -> None:
        self.work = Work()  # what it has done: it is known once the run has ended
        self._stop = threading.Event()
        budget = own_budget(annealer, self.work, most_s, enough_s).until(self._stop.is_set)
        self._thread = ThreadPoolExecutor(1)
        self._running = self._thread.submit(annealer.run, moves, budget)

    def wait(self, budget: TimeBudget = UNLIMITED) -> None:
        """Wait until the run has ended, or the budget is cut."""
        while not wait_for([self._running], WAIT_S).done and not budget.is_cut:
            pass

    def stop(self) -> None:
        """End the run, if it has not ended."""
        self._stop.set()
        self._thread.shutdown()
        self._running.result()


def own_budget(annealer: Annealer, work: Work, most_s: float, enough_s: float) -> TimeBudget:
    """For one annealer of several side by side: ``most_s`` of its own work, or ``enough_s`` once it has a schedule."""
    budget = TimeBudget(most_s, work)
    enough = budget.share(1.0, enough_s)
    return budget.until(lambda: enough.expired and annealer.incumbent is not None)


class Portfolio:
    """Annealers with different seeds, each in a thread of its own. All continue from the best result.

    Equal seeds and equal calls give equal schedules; ``orders`` and ``context`` are as in `Annealer`.
    """

    def __init__(
        self, problem: Problem, seed: int, orders: Sequence[Ints] = (), context: Context | None = None
    ) -> None:
        self._problem = problem
        self._context = context or Context()
        self._seed = seed
        self._orders = orders
        self._beginnings = 0
        self._annealers = self._new_annealers()
        # Whether only the results of the first annealer count: the others are at work, or were stopped midway.
        self._is_alone = False
        self._is_anew = False

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

    def begin_with_orders(self, budget: TimeBudget = UNLIMITED, at_most: float = 1.0) -> bool:
        """Begin with a store-all schedule that needs little RAM. If it keeps the limits, it is an optimum.

        If it does not, its order is one to start from: then this is True. ``at_most``: as in `frugal_order`.
        """
        if not self._context.has(Component.ORDERS):
            return False
        with self._context.timed(Component.ORDERS):
            order = frugal_order(self._problem, self._seed, budget.share(ORDERS_SHARE), at_most)
            found = evaluated(self._problem, order, self._context.credited(Component.ORDERS))
        if found is not None and keeps_limits(self._problem, found):
            self._annealers[0].keep(found)
        elif (order[1:] < order[:-1]).any():
            self._orders = [np.arange(len(order), dtype=np.int64), order]
            self._annealers = self._new_annealers()
            return True
        return False

    def begin_anew(self) -> None:
        """Let the next run begin with other annealers, which know what was found but do not continue from it."""
        self._beginnings += 1
        found, self._annealers = self.found, self._new_annealers()
        self._is_alone, self._is_anew = False, True
        for one in found:
            self._annealers[0].keep(one)

    def adopt(self, events: Ints, source: Component | None = None) -> bool:
        """Let the first annealer continue from ``events``, which ``source`` found.

        False, and nothing changes, if they are no schedule.
        """
        return self._annealers[0].adopt(events, source)

    def adopt_all(self, events: Ints, source: Component | None = None) -> None:
        """Let each annealer continue from ``events``, if they are a schedule."""
        for annealer in self._annealers:
            annealer.adopt(events, source)

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Let the first annealer continue at low temperature."""
        self._annealers[0].refine(moves, budget)

    def repair(self, events: Ints, budget: TimeBudget, source: Component) -> None:
        """Repair ``events``, which may exceed the budget, and keep the result. It is credited to ``source``.

        No annealer continues from it yet.
        """
        for number in range(REPAIRERS):
            annealer = Annealer(self._problem, SEEDS * self._seed + number, context=self._context.within(source))
            keep = partial(self._keep, annealer)
            if annealer.adopt(events, self._context.credited(source)) and not budget.expired:
                annealer.refine(int(REPAIR_S * moves_per_second(self._problem)), budget.noting(keep))
                keep()
            if self.incumbent is not None:
                return

    def run(self, moves: int, budget: TimeBudget = UNLIMITED, enough: TimeBudget = UNLIMITED) -> None:
        """Run each annealer for ``moves`` moves. The budget is checked in this thread, and shared equally.

        If the first annealer finds a schedule that costs no more than the store-all schedule, the run ends. If another
        does, only that one ends. So the result does not depend on which thread is faster. An annealer that has found a
        schedule ends once its equal share of ``enough`` has expired.
        """
        first, *others = self._annealers
        if first.has_least:
            return
        if not self._is_anew:
            self._share_best()
        self._is_anew = False
        shares = budget.left() / SEEDS, enough.left() / SEEDS
        work = Work()
        was_alone, self._is_alone, is_over = self._is_alone, True, False
        workers = [BackgroundWorker(annealer, moves, *shares) for annealer in others]
        ended = budget.until(lambda: first.has_least)
        try:
            first.run(moves, own_budget(first, work, *shares).until(lambda: budget.expired))
            for worker in workers:
                worker.wait(ended)
            is_over = ended.is_cut and first.incumbent is not None
        finally:
            for worker in workers:
                worker.stop()
            self._is_alone = was_alone or is_over
        others_s = [work.done_s if self._is_alone else worker.work.done_s for worker in workers]
        budget.spend(work.done_s + sum(others_s))

    def _new_annealers(self) -> list[Annealer]:
        seed = SEEDS * (self._seed + BEGINNING * self._beginnings)
        return [Annealer(self._problem, seed + k, self.orders(k), self._context) for k in range(SEEDS)]

    def _keep(self, annealer: Annealer) -> None:
        self._annealers[0].keep(annealer.incumbent)

    @property
    def _accepted(self) -> list[Annealer]:
        """The annealers whose results count."""
        return self._annealers[:1] if self._is_alone else self._annealers

    def _share_best(self) -> None:
        incumbent = self.incumbent
        if incumbent is not None:
            self.adopt_all(incumbent.events, incumbent.source)
