# SPDX-License-Identifier: Apache-2.0
"""Offsets for the best schedule, for one about as good, or for one planned again with reserved RAM.

See docs/optimiser/placement.md. Whether the blocks of a schedule can be placed depends on small details. So if the best
schedule stays unplaced, others of nearly the same energy are tried, and other orders of the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import count, islice, repeat

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action

from poet_planner.solve.instance import WORD, Ints, Problem, working_set_bytes
from poet_planner.solve.placement.first_fit import Placement, alive_bytes, place
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.decode import Decoded, decode
from poet_planner.solve.search.incumbent import Incumbent, evaluated, ranked, same
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statistics import Component, Context, Unplaced
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, Work
from poet_planner.solve.topology import producers

THREADS = 2  # schedules that are tried at a time
FIRST_S = 3.0  # for the ejection search of the best schedule: reference seconds
NEAR = 1e-3  # a schedule with offsets is good enough whose overhead is larger by no more than this fraction
AS_GOOD = 0.01  # others are tried whose overhead is larger by no more than this fraction
REORDERINGS = 64  # orders of the best schedule that are tried
SHIFTS = 16  # moves between two of them: moves a node
OTHER_S = 0.3  # for the ejection search of each of the others, and of each order: reference seconds
OTHERS_SHARE = 0.6  # for the others: fraction of the work left
ORDERS_SHARE = 0.2  # for the orders: fraction of the work left
EARLY_SHARE = 0.05  # the same for each of both, before the proof: fraction of the work left
MOST_ATTEMPTS = 12  # plans with RAM in reserve at most, the first plan included
ATTEMPT_SHARE = 0.05  # for each of them at least, even if the time is up: fraction of the time limit
LATE_S = 0.2  # for the ejection search of a schedule where the time is up: reference seconds
SQUEEZING_SHARE = 0.3  # for changing the best schedule so that it takes less RAM: fraction of the work left
SQUEEZES = 12  # changes that are tried at most
SQUEEZE_SHARE = 0.15  # for the search for each of them: fraction of the work left for all
LEAST_MOVES = 4  # the same at least, where there is so much: moves a node
REFINEMENTS = 4  # of these at most, while nothing is found
SQUEEZED_SHARE = 0.3  # for its offsets, where that is more than for others: the same
FIRST_LESS = 0.7  # how much less RAM the first of them takes: fraction of what first fit lacks
MORE = 1.2  # how much less it takes after one that has no offsets: factor
GIVEN_UP = 0.03  # how much of that is given up where the search finds nothing
LEAST_LESS = 0.002  # the first at least: fraction of the RAM
PRECISE = 0.2  # none is tried between two that differ by so little: fraction of what the one that does takes less
RESERVE = 0.25  # extra head-room around unplaced blocks: fraction of their bytes
STEP_S = 1e-5  # decoding a schedule, for each of its steps: reference seconds


class UnplacedError(Exception):
    """No schedule that was tried could be placed within the budget."""


@dataclass(frozen=True)
class PlacedSchedule:
    """A schedule with offsets, which may exceed the budget (see ``placement``)."""

    incumbent: Incumbent
    decoded: Decoded
    placement: Placement


class Placer:
    """Finds offsets for schedules.

    Parameters
    ----------
    replan_s : float
        Effort of the search for each plan that is made again, in seconds.
    on_note : callable
        Called with a line on what is done.
    context : Context or None
        As in `Annealer`.
    """

    def __init__(
        self,
        graph: Graph,
        problem: Problem,
        seed: int,
        replan_s: float,
        on_note: Callable[[str], object],
        context: Context | None = None,
    ) -> None:
        self._context = context or Context()
        self._graph = graph
        self._problem = problem
        self._seed = seed
        self._moves = int(replan_s * moves_per_second(problem))
        self._least_s = 0.0
        self._budget = self._overtime = UNLIMITED
        # What it took last to decode a schedule: much for thousands of events.
        self._decoding_s = 0.0
        self._on_note = on_note
        self._tries = count()
        # Whether schedules of less RAM are tried before others that are as good.
        self.is_large = False
        self._newest: PlacedSchedule | None = None
        self._found: PlacedSchedule | None = None
        # How much less RAM the next squeeze takes, the most that failed and the least that did, fractions of it; and
        # what it begins with.
        self._squeezed: tuple[float, float, float, Incumbent | None] = 0.0, 0.0, np.inf, None
        # Energies of the schedules without offsets, by their events, and whether it is proven that there are none.
        self._failed: dict[bytes, tuple[float, bool]] = {}

    def begin(self, limit_s: float, budget: TimeBudget, overtime: TimeBudget) -> None:
        """From now on spend ``budget``, or ``overtime`` while nothing is placed: it expires somewhat later.

        ``limit_s`` are the seconds of all work that ends with the budget. What was placed before remains a candidate.
        """
        self._least_s, self._budget, self._overtime = ATTEMPT_SHARE * limit_s, budget, overtime

    def fails_near(self, found: list[Incumbent]) -> bool:
        """Whether no schedule about as good as the first could be placed, in a small share of the time.

        ``found``: the cheapest first.
        """
        if self.found_near(found[0], 0.0):
            return False
        with self._context.timed(Component.PLACEMENT):
            if self._fits(self._place_newest(found[0], self._problem, 1)):
                return False
            if self.is_large:
                self._squeeze(found[0], self._share(SQUEEZING_SHARE))
            else:
                self._try_others(found, EARLY_SHARE, EARLY_SHARE)
        return not self.found_near(found[0], AS_GOOD)

    def place(self, found: list[Incumbent]) -> PlacedSchedule:
        """Place the first schedule, or one as near to it as possible.

        A `KeyboardInterrupt` ends the work early. Of those ``found`` the cheapest is the first.

        Raises
        ------
        UnplacedError
            If no schedule could be placed.
        KeyboardInterrupt
            If it comes before any schedule is placed.
        """
        with self._context.timed(Component.PLACEMENT):
            return self._place(found)

    def _place(self, found: list[Incumbent]) -> PlacedSchedule:
        best = self._newest
        is_answered = best is not None and (self.is_large or self._fits(best) or best.placement.impossible)
        if best is None or not is_answered or not np.array_equal(best.incumbent.events, found[0].events):
            best = self._place_newest(found[0], self._problem, 0)
        try:
            if not self._fits(best):
                if self.is_large:
                    self._squeeze(found[0], self._budget.share(OTHERS_SHARE if self._found else 1.0))
                self._try_others(found, OTHERS_SHARE, ORDERS_SHARE)
                self._squeeze(found[0], self._budget.share(SQUEEZING_SHARE))
                if self._context.has(Component.REPLANNING):
                    with self._context.timed(Component.REPLANNING):
                        self._plan_again(best)
        except KeyboardInterrupt:
            if self._found is None:
                raise
            self._budget.end()
        if self._found is None:
            raise UnplacedError
        return self._found

    def unplaced(self, best: Incumbent, answer: Incumbent) -> Unplaced | None:
        """The best schedule, if it was given no offsets and the answer costs more."""
        failed = self._failed.get(best.events.tobytes())
        if failed is None or not _is_less(best.energy, answer.energy):
            return None
        cheaper = [impossible for energy, impossible in self._failed.values() if _is_less(energy, answer.energy)]
        return Unplaced(best.energy, failed[1], len(cheaper), sum(cheaper))

    def _try_others(self, found: list[Incumbent], others_share: float, orders_share: float) -> PlacedSchedule | None:
        """Place a schedule about as good as the first, or the first in another order; None if that fails."""
        near = (one for one in found[1:] if self._near(one, found[0], AS_GOOD))
        if (first := self._first_fitting(near, self._share(others_share))) is not None:
            return first
        budget = self._share(orders_share)
        return self._first_fitting(self._reordered(found[0], budget), budget)

    def _share(self, fraction: float, most_s: float = np.inf) -> TimeBudget:
        """A share of the time left; if none is left, a little of the overtime."""
        if self._budget.expired:
            return self._overtime.share(1.0, min(most_s, LATE_S))
        return self._budget.share(fraction, most_s)

    def _first_fitting(self, schedules: Iterator[Incumbent], budget: TimeBudget) -> PlacedSchedule | None:
        """The first that can be placed and is better than the best one placed so far."""
        promising = filter(self._promises, schedules)
        while budget.left() > self._decoding_s and (some := list(islice(promising, THREADS))):
            made = self._side_by_side(some, self._share(1.0, OTHER_S))
            fitting = filter(self._fits, map(self._keep, made))
            if (first := next(fitting, None)) is not None:
                return first
        return None

    def _side_by_side(self, some: list[Incumbent], share: TimeBudget) -> list[PlacedSchedule]:
        """Place some schedules at once. Each counts its own work, so that none depends on how fast another is."""
        spent = [Work() for _ in some]
        budgets = [TimeBudget(share.left(), work).until(lambda: share.is_cut) for work in spent]
        problems, seeds = repeat(self._problem), islice(self._tries, len(some))
        with ThreadPoolExecutor(THREADS) as threads:
            made = [*threads.map(self._decode_and_place, some, problems, budgets, seeds)]
        share.spend(sum(work.done_s for work in spent))
        return made

    def _reordered(self, best: Incumbent, budget: TimeBudget) -> Iterator[Incumbent]:
        """``best`` in other orders, each made from the one before."""
        search = Annealer(self._problem, self._seed, context=self._context.within(Component.PLACEMENT))
        if search.adopt(best.events, best.source):
            moves = SHIFTS * len(best.events)
            orders = (search.reorder(moves, budget) for _ in range(REORDERINGS))
            yield from (one for one in orders if one is not None)

    def _squeeze(self, best: Incumbent, budget: TimeBudget) -> None:
        """Place ``best``, changed so that it takes less RAM: by much of what first fit lacks, then bisected.

        At the least that does, other changes are tried. Another call goes on where this one ended.
        """
        problem, within = self._problem, self._context.within(Component.REPLANNING)
        assert self._newest is not None
        less, fails, fits, start = self._squeezed
        less = less or max(LEAST_LESS, FIRST_LESS * (1 - problem.budget / self._newest.placement.arena_bytes))
        start = start or best
        for number in range(SQUEEZES * within.has(Component.REPLANNING)):
            if self.found_near(best) or budget.left() <= self._decoding_s:
                break
            reserve = np.minimum(int(less * problem.budget) // WORD * WORD, problem.budget - working_set_bytes(problem))
            planned = replace(problem, workspace=problem.workspace + reserve)
            search = Annealer(planned, next(self._tries), context=within)
            with self._context.timed(Component.REPLANNING):
                effort = int(SQUEEZE_SHARE * max(0.0, budget.left()) * moves_per_second(problem))
                effort = min(self._moves, max(effort, LEAST_MOVES * len(problem.node_time)))
                for again in range(REFINEMENTS * search.adopt(start.events, start.source)):
                    if search.incumbent is None or (not again and self._found is not None):
                        search.refine(effort, budget)
            made = search.incumbent and evaluated(problem, search.incumbent.events, search.incumbent.source)
            share = budget.share(1.0, max(OTHER_S, SQUEEZED_SHARE * budget.left()))
            start = made or search.reorder(0) or best  # it goes on from what still takes too much
            if self._found is not None and self._found.incumbent.energy < best.energy:
                start = self._found.incumbent
            is_short = share.left() < OTHER_S
            if made is None:
                less -= GIVEN_UP * (less - fails)
                continue
            if self._fits(self._keep(self._decode_and_place(made, planned, share, number))):
                fits = less
            elif is_short:
                continue
            else:
                fails, fits = less, fits if less < fits else np.inf
            less = min(MORE * less, (fails + fits) / 2) if fails < (1 - PRECISE) * fits else fits
        self._squeezed = less, fails, fits, start

    def _plan_again(self, best: PlacedSchedule) -> None:
        """Plan again with RAM reserved where blocks were unplaced, and with less of it once all blocks are placed."""
        problem = self._problem
        newest = best
        reserve = np.zeros(len(problem.node_time), dtype=np.int64)
        feasible_reserve: Ints | None = None
        late = 0
        for attempt in range(1, MOST_ATTEMPTS):
            tried_enough = self._found is None and attempt > MOST_ATTEMPTS // 2
            late += tried_enough or self._budget.left() < self._least_s
            if late > 0 and self._found is None:
                self._squeeze(best.incumbent, self._overtime)
            over = self._overtime.left() <= self._decoding_s or (self._found is not None and late > 0)
            if over or self.found_near(best.incumbent):
                break
            before = reserve
            if self._fits(newest):
                reserve, feasible_reserve = _half(reserve), reserve
            elif feasible_reserve is not None:
                reserve = _half(reserve + feasible_reserve)
            else:
                reserve = self._more_reserve(reserve, newest, late)
            missing = sum(life.size for life in newest.placement.unplaced)
            self._on_note(f"no offsets for {missing} bytes; planning again" if missing else "planning again")
            planned = replace(problem, workspace=problem.workspace + reserve)
            within = self._context.within(Component.REPLANNING)
            search = Portfolio(planned, self._seed + attempt, [_random_order(planned, attempt)], within)
            if not np.array_equal(reserve, before):
                search.adopt_all(newest.incumbent.events, newest.incumbent.source)
            some_s = max(self._budget.left() / 2.5, self._least_s)
            search.run(self._moves, self._overtime, self._overtime.share(1.0, some_s))
            again = ranked(evaluated(problem, one.events, one.source) for one in search.found)
            if not again:
                reserve = _half(reserve)
                continue
            newest = self._place_newest(again[0], planned, attempt)
            if not self._fits(newest):
                early_share = EARLY_SHARE
                newest = self._try_others(again, early_share, early_share) or newest

    def _more_reserve(self, reserve: Ints, unplaced: PlacedSchedule, late: int) -> Ints:
        """Bytes to reserve while each node is computed. (n,)

        While unplaced blocks live: the bytes that are free now, up to the size of these blocks, and a fraction of that
        size more. If time is up, or half of the attempts have placed nothing: at every step, the most bytes unplaced at
        once, and twice as much with each further attempt (``late`` counts them).
        """
        problem = self._problem
        steps = unplaced.decoded.steps
        unplaced_bytes = np.zeros(len(steps), dtype=np.int64)
        for life in unplaced.placement.unplaced:
            unplaced_bytes[life.start : life.end] += life.size
        free = problem.budget - alive_bytes(self._graph, steps)
        left_free = np.minimum(unplaced_bytes, free)
        further = (RESERVE * unplaced_bytes).astype(np.int64) // WORD * WORD
        more = np.maximum(reserve, unplaced_bytes.max(initial=0) * 2 ** (late - 1) if late > 0 else 0)
        numbers = {node.id: j for j, node in enumerate(self._graph.nodes)}
        for k in np.nonzero(unplaced_bytes)[0]:
            if steps[k].do is Action.COMPUTE:
                j = numbers[steps[k].target]
                more[j] = max(more[j], max(reserve[j], left_free[k]) + further[k])
        return np.minimum(more, problem.budget - working_set_bytes(problem))

    def _place_newest(self, incumbent: Incumbent, planned: Problem, attempt: int) -> PlacedSchedule:
        """Place a schedule of the problem ``planned`` and make it the newest."""
        budget = self._share(0.5 / (attempt + 1), OTHER_S if self.is_large else FIRST_S / (attempt + 1))
        self._newest = self._keep(self._decode_and_place(incumbent, planned, budget, next(self._tries)))
        return self._newest

    def _decode_and_place(
        self, incumbent: Incumbent, planned: Problem, budget: TimeBudget, seed: int
    ) -> PlacedSchedule:
        """Decode and place a schedule; another ``seed`` gives another search for offsets."""
        decoded = decode(self._graph, planned, incumbent.events)
        decoded = replace(decoded, peak=int(alive_bytes(self._graph, decoded.steps).max(initial=0)))
        budget.spend(STEP_S * len(decoded.steps))
        placement = place(
            self._graph, decoded.steps, self._problem.budget, budget, lowest=False, seed=seed, context=self._context
        )
        if self._problem.dma and planned is not self._problem:
            # Transfers that wait for the reserved RAM change lives: this proves nothing of the schedule without it.
            placement = replace(placement, impossible=False)
        return PlacedSchedule(incumbent, decoded, placement)

    def _keep(self, one: PlacedSchedule) -> PlacedSchedule:
        """Make a schedule the answer, if it fits and is better than the one before."""
        self._decoding_s = STEP_S * len(one.decoded.steps)
        if not self._fits(one):
            proven = one.placement.impossible or self._is_impossible(one.incumbent)
            self._failed[one.incumbent.events.tobytes()] = one.incumbent.energy, proven
        elif self._better(one.incumbent):
            self._found = one
        return one

    def _promises(self, one: Incumbent) -> bool:
        """Whether a schedule is worth a try."""
        return self._better(one) and not self._is_impossible(one)

    def _is_impossible(self, one: Incumbent) -> bool:
        """Whether it is proven that a schedule has no offsets."""
        return self._failed.get(one.events.tobytes(), (0.0, False))[1]

    def _better(self, one: Incumbent) -> bool:
        """Whether it costs less than the best schedule placed so far."""
        return self._found is None or one.energy < self._found.incumbent.energy

    def _fits(self, one: PlacedSchedule) -> bool:
        return one.placement.arena_bytes <= self._problem.budget

    def found_near(self, best: Incumbent, share: float = NEAR) -> bool:
        """Whether the overhead of a placed schedule exceeds that of ``best`` by at most such a fraction."""
        return self._found is not None and self._near(self._found.incumbent, best, share)

    def _near(self, one: Incumbent, best: Incumbent, share: float) -> bool:
        """Whether the overhead of ``one`` exceeds that of ``best`` by at most such a fraction."""
        more = share * (best.energy - float(self._problem.node_energy.sum()))
        return one.energy <= best.energy + more or same(one.energy, best.energy)


def _is_less(energy: float, other: float) -> bool:
    return energy < other and not same(energy, other)


def _half(sizes: Ints) -> Ints:
    """Half of each size, in whole words."""
    return sizes // (2 * WORD) * WORD


def _random_order(problem: Problem, seed: int) -> Ints:
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
