# SPDX-License-Identifier: Apache-2.0
"""Addresses for the best schedule; else for one about as good; else for one planned again, with RAM set aside.

Whether a schedule's blocks find a place depends on small things. Of a dozen schedules that cost about the same one may
well have addresses where the best has none; and so may the best itself in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import count, islice

import numpy as np
from joblib import Parallel, delayed
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action

from poet_planner.solve.instance import WORD, Ints, Problem, node_need
from poet_planner.solve.placement.first_fit import Placement, alive_bytes, place
from poet_planner.solve.search.annealer import Search, moves_per_second
from poet_planner.solve.search.decode import Decoded, decode
from poet_planner.solve.search.eviction import by_eviction
from poet_planner.solve.search.incumbent import Incumbent, cheapest, measured, ranked, same
from poet_planner.solve.search.portfolio import Searches
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import producers

THREADS = 2  # that try schedules side by side


class NoAddressesError(Exception):
    """None of the schedules tried got addresses; ``arena_bytes`` would do for one."""

    def __init__(self, arena_bytes: int) -> None:
        super().__init__(f"no addresses within {arena_bytes} bytes")
        self.arena_bytes = arena_bytes


@dataclass(frozen=True)
class Addressed:
    """A schedule with addresses; whether they are within the budget, the placement says."""

    incumbent: Incumbent
    decoded: Decoded
    placement: Placement


class Addresses:
    """Gives schedules addresses.

    Parameters
    ----------
    again_s : float
        Seconds of searching for each plan made again.
    time_limit_s : float
    budget : TimeBudget
        Until the time limit.
    overtime : TimeBudget
        Until somewhat later: for what has no addresses by then.
    on_note : callable
        Told what is done.
    context : Context or None
        As in `Search`.
    """

    def __init__(
        self,
        graph: Graph,
        problem: Problem,
        seed: int,
        again_s: float,
        time_limit_s: float,
        budget: TimeBudget,
        overtime: TimeBudget,
        on_note: Callable[[str], object],
        context: Context | None = None,
    ) -> None:
        self._context = context or Context()
        self._params = self._context.params.placement
        self._graph = graph
        self._problem = problem
        self._seed = seed
        self._moves = int(again_s * moves_per_second(problem))
        self._least_s = self._params.attempt_share * time_limit_s
        self._budget = budget
        self._overtime = overtime
        self._on_note = on_note
        self._tries = count()
        self._newest: Addressed | None = None
        self._found: Addressed | None = None

    def lack(self, found: list[Incumbent]) -> bool:
        """Whether no addresses were found for a schedule that is about as good as the first.

        ``found``: the cheapest first.
        """
        with self._context.timed(Part.PLACEMENT):
            if self._fits(self._tried(found[0], self._problem, 1)):
                return False
            self._try_others(found, self._params.early_share, self._params.early_share)
            if len(self._problem.node_time) >= self._params.many_nodes:
                self._secure(self._share(self._params.securing_share))
        return not self._found_near(found[0], self._params.as_good)

    def give(self, found: list[Incumbent]) -> Addressed:
        """The first schedule with addresses, or what comes nearest.

        A `KeyboardInterrupt` ends the work early.

        Parameters
        ----------
        found : list of Incumbent
            The cheapest first.

        Raises
        ------
        NoAddressesError
            If none that was tried got addresses.
        KeyboardInterrupt
            If it comes before any got addresses.
        """
        with self._context.timed(Part.PLACEMENT):
            return self._given(found)

    def _given(self, found: list[Incumbent]) -> Addressed:
        best = self._newest
        if best is None or not np.array_equal(best.incumbent.events, found[0].events):
            best = self._tried(found[0], self._problem, 0)
        try:
            if not self._fits(best):
                self._try_others(found, self._params.others_share, self._params.orders_share)
                if self._context.has(Part.REPLANNING):
                    with self._context.timed(Part.REPLANNING):
                        self._plan_again(best)
        except KeyboardInterrupt:
            if self._found is None:
                raise
        if self._found is None:
            late = self._overtime.share(1.0, self._params.late_s)
            lowest = place(self._graph, best.decoded.steps, self._problem.budget, late, context=self._context)
            raise NoAddressesError(lowest.arena_bytes)
        return self._found

    def _try_others(self, found: list[Incumbent], others_share: float, orders_share: float) -> Addressed | None:
        """One about as good as the first, or that in another order, with addresses; None if there is none in time."""
        near = (one for one in found[1:] if self._near(one, found[0], self._params.as_good))
        if (first := self._first_fitting(near, self._share(others_share))) is not None:
            return first
        budget = self._share(orders_share)
        return self._first_fitting(self._orders(found[0], budget), budget)

    def _share(self, fraction: float, most_s: float = np.inf) -> TimeBudget:
        """Such a share of the time left; where none is left, a little of the overtime."""
        if self._budget.expired:
            return self._overtime.share(1.0, min(most_s, self._params.late_s))
        return self._budget.share(fraction, most_s)

    def _first_fitting(self, schedules: Iterator[Incumbent], budget: TimeBudget) -> Addressed | None:
        """The first with addresses that is better than what is there."""
        better = filter(self._better, schedules)
        while not budget.expired and (some := list(islice(better, THREADS))):
            each = partial(self._placed, planned=self._problem, budget=self._share(1.0, self._params.other_s))
            tries = [delayed(each)(one, seed=next(self._tries)) for one in some]
            fitting = filter(self._fits, map(self._keep, Parallel(THREADS, prefer="threads")(tries)))
            if (first := next(fitting, None)) is not None:
                return first
        return None

    def _orders(self, best: Incumbent, budget: TimeBudget) -> Iterator[Incumbent]:
        """The same in other orders, each going on from the one before."""
        search = Search(self._problem, self._seed, context=self._context.within(Part.PLACEMENT))
        if search.adopt(best.events, best.source):
            moves = self._params.shifts * len(best.events)
            orders = (search.wander(moves, budget) for _ in range(self._params.orders))
            yield from (one for one in orders if one is not None)

    def _secure(self, budget: TimeBudget) -> None:
        """Get any schedule with addresses, made by eviction in less RAM.

        First in less by what the newest lacks, then by twice as much each time.
        """
        problem = self._problem
        if self._found is not None or not self._context.has(Part.REPLANNING):
            return
        assert self._newest is not None
        less = self._newest.placement.arena_bytes - problem.budget
        order, random = np.arange(len(problem.node_time)), np.random.default_rng(self._seed)
        with self._context.timed(Part.REPLANNING):
            while self._found is None and not budget.expired and less < problem.budget:
                planned = problem._replace(budget=problem.budget - less // WORD * WORD)
                made = cheapest(*by_eviction(planned, order, random, self._params.securing_passes, budget))
                if made is None:
                    return
                if made.time <= problem.deadline:
                    source = self._context.credited(Part.REPLANNING)
                    self._keep(
                        self._placed(replace(made, source=source), planned, budget.share(1.0, self._params.late_s), 0)
                    )
                less *= 2

    def _plan_again(self, best: Addressed) -> None:
        """Set RAM aside where blocks found no place, and less of it again once all have found one."""
        problem = self._problem
        newest = best
        aside = np.zeros(len(problem.node_time), dtype=np.int64)
        enough: Ints | None = None
        late = 0
        for attempt in range(1, self._params.most_attempts):
            late += self._budget.left() < self._least_s
            if late > 0:
                self._secure(self._overtime)
            over = self._overtime.expired or (self._found is not None and late > 0)
            if over or self._found_near(best.incumbent, self._params.near):
                break
            before = aside
            if self._fits(newest):
                aside, enough = _half(aside), aside
            elif enough is not None:
                aside = _half(aside + enough)
            else:
                aside = self._set_aside(aside, newest, late)
            lacking = sum(life.size for life in newest.placement.without_place)
            self._on_note(f"no addresses for {lacking} bytes; planning again" if lacking else "planning again")
            planned = problem._replace(workspace=problem.workspace + aside)
            within = self._context.within(Part.REPLANNING)
            search = Searches(planned, self._seed + attempt, _any_order(planned, attempt), within)
            if not np.array_equal(aside, before):
                search.adopt_all(newest.incumbent.events, newest.incumbent.source)
            search.run(self._moves, self._within(search))
            again = ranked(measured(problem, one.events, one.source) for one in search.found)
            if not again:
                aside = _half(aside)
                continue
            newest = self._tried(again[0], planned, attempt)
            if not self._fits(newest):
                early_share = self._params.early_share
                newest = self._try_others(again, early_share, early_share) or newest

    def _set_aside(self, aside: Ints, lacking: Addressed, late: int) -> Ints:
        """Bytes to be left free when each node is computed. (n,)

        Where blocks without a place live, what is free there now, but for what exceeds them, and a share of them more.
        Where time is up, everywhere as much as they are together at most, and with each attempt after that (``late``)
        twice as much.
        """
        problem = self._problem
        steps = lacking.decoded.steps
        without = np.zeros(len(steps), dtype=np.int64)
        for life in lacking.placement.without_place:
            without[life.start : life.end] += life.size
        free = problem.budget - alive_bytes(self._graph, steps)
        left_free = np.minimum(without, free)
        further = (self._params.reserve * without).astype(np.int64) // WORD * WORD
        more = np.maximum(aside, without.max(initial=0) * 2 ** (late - 1) if late > 0 else 0)
        numbers = {node.id: j for j, node in enumerate(self._graph.nodes)}
        for k in np.nonzero(without)[0]:
            if steps[k].do is Action.COMPUTE:
                j = numbers[steps[k].target]
                more[j] = max(more[j], max(aside[j], left_free[k]) + further[k])
        return np.minimum(more, problem.budget - node_need(problem))

    def _tried(self, incumbent: Incumbent, planned: Problem, attempt: int) -> Addressed:
        """Steps as ``planned`` wants them, and addresses, if there are any."""
        budget = self._share(0.5 / (attempt + 1), self._params.first_s / (attempt + 1))
        self._newest = self._keep(self._placed(incumbent, planned, budget, next(self._tries)))
        return self._newest

    def _placed(self, incumbent: Incumbent, planned: Problem, budget: TimeBudget, seed: int) -> Addressed:
        """With another ``seed`` each time, nothing is tried twice."""
        decoded = decode(self._graph, planned, incumbent.events)
        decoded = replace(decoded, peak=int(alive_bytes(self._graph, decoded.steps).max(initial=0)))
        placement = place(
            self._graph, decoded.steps, self._problem.budget, budget, lowest=False, seed=seed, context=self._context
        )
        return Addressed(incumbent, decoded, placement)

    def _keep(self, one: Addressed) -> Addressed:
        """Let it be the answer, if it fits and is better than what was before."""
        if self._fits(one) and self._better(one.incumbent):
            self._found = one
        return one

    def _better(self, one: Incumbent) -> bool:
        """Whether it costs less than the best that has got addresses."""
        return self._found is None or one.energy < self._found.incumbent.energy

    def _fits(self, one: Addressed) -> bool:
        return one.placement.arena_bytes <= self._problem.budget

    def _found_near(self, best: Incumbent, share: float) -> bool:
        """Whether one got addresses that is about as good as the best."""
        return self._found is not None and self._near(self._found.incumbent, best, share)

    def _near(self, one: Incumbent, best: Incumbent, share: float) -> bool:
        """Whether its energy above plain training is larger than the best's by no more than such a share of that."""
        more = share * (best.energy - float(self._problem.node_energy.sum()))
        return one.energy <= best.energy + more or same(one.energy, best.energy)

    def _within(self, search: Searches) -> TimeBudget:
        """For some of the time left, or until it has found anything."""
        some = self._overtime.share(1.0, max(self._budget.left() / 2.5, self._least_s))
        return self._overtime.until(lambda: search.incumbent is not None and some.expired)


def _half(sizes: Ints) -> Ints:
    """In whole words."""
    return sizes // (2 * WORD) * WORD


def _any_order(problem: Problem, seed: int) -> Ints:
    """A random topological order of the nodes. (n,)"""
    random = np.random.default_rng(seed)
    sorter = TopologicalSorter({j: producers(problem, j).tolist() for j in range(len(problem.node_time))})
    sorter.prepare()
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        order.append(ready.pop(int(random.integers(len(ready)))))
        sorter.done(order[-1])
    return np.array(order, dtype=np.int64)
