# SPDX-License-Identifier: Apache-2.0
"""An annealer: its annealing passes, their temperatures and their starts (docs/optimiser/search.md, "A run")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from poet_planner.solve.instance import Ints, Problem, dearest_page_j, energy_unit_j, graph_size
from poet_planner.solve.search import annealing
from poet_planner.solve.search.annealing import (
    BEST,
    BEST_LENGTH,
    CHANGED_FIRST,
    COOLING_FACTOR,
    CURRENT_LENGTH,
    ENERGY_CAP,
    PER_BYTE,
    PER_SECOND,
    SPLIT_REPAIRS,
    SPLITTING,
    TEMPERATURE,
    new_state,
)
from poet_planner.solve.search.crossover import cross
from poet_planner.solve.search.delta_evaluation import new_delta_evaluation
from poet_planner.solve.search.evaluation import capacity, new_workspace
from poet_planner.solve.search.eviction import by_eviction
from poet_planner.solve.search.incumbent import SAME, Incumbent, cheapest, evaluated, ranked, same
from poet_planner.solve.search.lagrangian import FIRST, MultiplierSearch, with_multiplier
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

CHUNK_MOVES = 3000  # moves between two checks of the time budget
CHUNK_S = 0.1
# A move, and what each node, value and edge adds: reference seconds.
MOVE_S = 4e-6
MOVE_S_PER_SIZE = 4.7e-9

# Temperatures, in *event energies*: overhead of the best schedule for each event of it. A *move a node* is as many
# moves as the graph has nodes.
HOT = 1.0  # first temperature of a pass that goes on where the last one ended
WARM = 0.3  # first temperature of a pass from the best schedule, or from one that a part has made
COLD = 0.02  # last temperature of both
START_HOT = (30.0, 5.0, 1.0)  # first temperatures of passes from the store-all schedule
START_COLD = 0.01  # their last temperature
CAPPED_HOT = 0.2  # first temperature of a pass with an energy cap
CAPPED_COLD = 0.002  # its last temperature
EVENT_ENERGY = 0.01  # the event energy until a schedule is known, relative to E0 / n

CYCLES = 4  # passes of a cycle, each twice as long as the one before
START_SHARE = 0.39  # passes from the store-all schedule, where moves are few: fraction of the first run's
CAPPED_SHARE = 0.6  # passes with an energy cap: fraction of a later run's moves
FEW_MOVES = 60  # with fewer moves a node the first run is one pass, which ends cold
MANY_MOVES = 600  # with as many moves a node the first run makes offspring instead of cycles
MANY_STARTS = 2  # how often it goes through `START_HOT` then
OFFSPRING = 16  # passes from offspring of two schedules
PARENTS = 6  # the best schedules that offspring are made of

EVICTION_SHARE = 0.06  # starts by eviction, each of them a move a node long: fraction of the first run's moves
LEAST_EVICTIONS = 4
MOST_EVICTIONS = 128
ENOUGH_EVICTED = 32  # schedules after which no further start is made
EVICTION_START_MOVES = 100  # moves a node of a pass from each, where passes from store-all find no schedule

TRIALS = 8  # multipliers of the deadline that are tried
LAGRANGIAN_SHARE = 0.5  # for all of them, and for repairs: fraction of the first run's moves
REPAIR_TRIALS = 3  # repair of the last late schedule and of the last in time: moves of as many trials each
REPAIR_FACTOR = 0.7  # the multiplier of a repair, relative to the largest one that was late
LAGRANGIAN_PASS_SHARE = 0.12  # passes from both: fraction of the first run's moves


@dataclass(frozen=True)
class RepairStrategy:
    """What an annealer does about overflow: memory that a state takes above the budget."""

    share: float  # how often a move in such a state drops a value there and restores it: fraction of its moves
    repairs: int  # how many values more are dropped at once
    changed_first: bool  # always drop rather a value that is there because of the move; else every second time


@dataclass(frozen=True)
class FirstRun:
    """How a first run with many moves spends those that Lagrange multipliers leave it."""

    start_share: float  # passes from the store-all schedule: fraction of the moves
    capped_share: float  # passes with an energy cap: fraction of the rest
    further: float  # more moves for passes with an energy cap, relative to those of the run
    capped_moves: int  # of each pass with an energy cap: moves a node
    above: float  # how far its energy may rise above the best schedule's: event energies


LOOSE = FirstRun(0.48, 0.33, 0.0, 200, 0.0)  # where no deadline binds
BINDING = FirstRun(0.25, 0.8, 1.0, 500, 1.0)  # where the deadline binds
# Annealers take turns: some networks want the one, others the other.
REPAIR_STRATEGIES = RepairStrategy(0.7, 0, False), RepairStrategy(0.3, 3, True)


@dataclass(frozen=True)
class AnnealingPass:
    """An annealing pass: one cooling schedule, from hot to cold.

    Energies are in units of one extra event (`Annealer._event_energy`).
    """

    share: float  # fraction of the run's moves
    # hot, cold: first and last temperature.
    hot: float
    cold: float
    above: float = np.inf  # the energy cap, above the energy of the best schedule; infinite if there is none
    part: Component = Component.ANNEALING  # the part of the optimiser that the pass belongs to


class Annealer:
    """One annealer. Each call of `run` continues from the best schedule so far.

    Equal seeds and equal calls give equal schedules. Even and odd seeds use different repair strategies. ``orders`` are
    topological orders of the nodes, the first to start from, all of them to evict in; empty: that of the graph. Without
    a ``context`` all parts are on.
    """

    def __init__(
        self, problem: Problem, seed: int, orders: Sequence[Ints] = (), context: Context | None = None
    ) -> None:
        self._problem = problem
        self._move_s = 1 / moves_per_second(problem)
        self._chunk = max(1, min(CHUNK_MOVES, int(CHUNK_S / self._move_s)))
        self._seed = seed
        self._context = context or Context()
        random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
        self._work = new_workspace(problem, random)
        self._other = new_workspace(problem, random)
        self._delta = new_delta_evaluation(problem)
        self._spare = new_delta_evaluation(problem)
        self._store_all_j = float(problem.node_energy.sum())
        self._unit_j = energy_unit_j(self._store_all_j, dearest_page_j(problem))
        self._state = new_state(capacity(problem))
        self._reset_penalties()
        strategy = REPAIR_STRATEGIES[seed % len(REPAIR_STRATEGIES)]
        self._state.figures[SPLITTING] = strategy.share
        self._state.lengths[SPLIT_REPAIRS] = strategy.repairs
        self._state.lengths[CHANGED_FIRST] = strategy.changed_first
        self._choice = np.random.default_rng(seed)
        self._parents: list[Incumbent] = []
        self._kept: list[Incumbent] = []
        self._evicted: list[Incumbent] = []
        self._lagrangian_starts: list[Ints] = []
        self._orders = list(orders) or [np.arange(len(problem.node_time), dtype=np.int64)]
        self._order = self._orders[0]
        self._started = False
        # Energy and source of the start of the current pass, and the part that the pass belongs to. What the pass finds
        # is credited to that part, unless it is the start itself.
        self._start_j = np.inf
        self._start_source: Component | None = None
        self._part = Component.ANNEALING
        self._best: Incumbent | None = None
        self._noted_j = np.inf
        self._begin(self._order, self._context.credited(Component.ANNEALING))

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        return cheapest(*self._in_time(), self._annealed())

    @property
    def has_least(self) -> bool:
        """Whether the best schedule costs no more than the store-all schedule, and so is an optimum."""
        # This is asked often, so nothing is evaluated.
        found = [*self._in_time(), *self._parents[:1]]
        return self._is_least(min([float(self._state.figures[BEST]), *(one.energy for one in found)]))

    @property
    def found(self) -> list[Incumbent]:
        """The best schedule so far, and the results of other passes; the cheapest first."""
        return ranked([self.incumbent, *self._kept])

    def adopt(self, events: Ints, source: Component | None = None) -> bool:
        """Continue from ``events``, which ``source`` found.

        False, and nothing changes, if they are no schedule, or more than `capacity`.
        """
        if len(events) > len(self._state.current):
            return False
        self.keep(self._best)
        adopted = self._begin(events, source)
        self._started |= adopted
        return adopted

    def run(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal for ``moves`` moves, or until a schedule is found that costs no more than the store-all schedule.

        The first run anneals from several starts, then from offspring, then under an energy cap. If the moves are few
        for the graph, it anneals in cycles instead: passes of rising length, in turn from the best schedule and from
        the last state. A later run anneals in cycles, then under an energy cap. The budget is checked every few
        hundredths of a second.
        """
        if budget.expired:
            return
        first, self._started = not self._started, True
        if first and moves < FEW_MOVES * len(self._order):
            self._begin_frugally()
            self.refine(moves, budget)
            return
        if first and not self._make_starts(moves, budget):
            return
        for one in self._passes(moves, first):
            if not self._anneal(int(moves * one.share), one, budget):
                return

    def _begin_frugally(self) -> None:
        """Begin with the order that takes the least RAM."""
        orders = [one for order in self._orders if (one := evaluated(self._problem, order)) is not None]
        self._begin(min(orders, key=lambda one: one.peak).events, self._context.credited(Component.ANNEALING))

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal from the current state at low temperature. The result is credited to the source of that state."""
        part = self._start_source or Component.ANNEALING
        self._anneal(moves, AnnealingPass(1.0, WARM, COLD, part=part), budget)

    def keep(self, found: Incumbent | None) -> None:
        """Keep a schedule. It becomes a parent if it is one of the best."""
        self._kept = ranked([*self._kept, found])
        if found is None or any(same(found.energy, one.energy) for one in self._parents):
            return
        self._parents = sorted([*self._parents, found], key=lambda one: one.energy)[:PARENTS]

    def reorder(self, moves: int, budget: TimeBudget = UNLIMITED) -> Incumbent | None:
        """Shift events of the current state at random, without breaking a limit or raising the energy."""
        while moves > 0 and not budget.expired:
            chunk = min(moves, self._chunk)
            annealing.reorder(self._problem, self._work, self._other, self._delta, self._state, chunk)
            budget.spend(chunk * self._move_s)
            moves -= chunk
        now = self._state.current[: self._state.lengths[CURRENT_LENGTH]]
        return evaluated(self._problem, now, self._start_source)

    def _passes(self, moves: int, first: bool) -> Iterator[AnnealingPass]:
        """The passes of a run, in order. Each starts from the state that is set just before it is yielded."""
        capped = self._context.has(Component.ENERGY_CAP)
        if not first:
            capped_share = CAPPED_SHARE * capped
            return chain(self._cycles(1 - capped_share, 1), self._capped_passes(moves, capped_share, LOOSE))
        balance = BINDING if self._lagrangian_starts else LOOSE
        left = 1 - (LAGRANGIAN_SHARE + LAGRANGIAN_PASS_SHARE) * bool(self._lagrangian_starts)
        if moves < MANY_MOVES * len(self._order):
            starts = self._start_passes(moves, left * START_SHARE, 1)
            rest = self._cycles(left * (1 - START_SHARE), 0)
        else:
            starts = self._start_passes(moves, left * balance.start_share, MANY_STARTS)
            share = left * (1 - balance.start_share)
            capped_share = balance.capped_share * capped
            capped_passes = self._capped_passes(moves, share * capped_share + balance.further * capped, balance)
            rest = chain(self._offspring_passes(share * (1 - capped_share)), capped_passes)
        return chain(self._lagrangian_passes(LAGRANGIAN_PASS_SHARE), starts, rest)

    def _start_passes(self, moves: int, share: float, rounds: int) -> Iterator[AnnealingPass]:
        """From the store-all schedule, and last from the best schedule made by eviction.

        If the first pass finds no schedule, all others start from schedules made by eviction.
        """
        hots = START_HOT * rounds
        for number, hot in enumerate(hots, start=1):
            if number == 2 and self._annealed() is None and self._evicted:
                yield from self._eviction_passes(moves, share * (1 - 1 / len(hots)))
                return
            if number == len(hots) and self._evicted:
                events, part = self._evicted[0].events, Component.EVICTION
            else:
                events, part = self._order, Component.ANNEALING
            self._begin(events, self._context.credited(part))
            yield AnnealingPass(share / len(hots), hot, START_COLD, part=part)

    def _eviction_passes(self, moves: int, share: float) -> Iterator[AnnealingPass]:
        """From schedules made by eviction, good and bad: their energy does not predict the energy reached from them."""
        most = max(1, int(share * moves / (EVICTION_START_MOVES * len(self._order))))
        count = min(most, len(self._evicted))
        for number in np.linspace(0, len(self._evicted) - 1, count).astype(int):
            events = self._evicted[number].events
            self._begin(events, self._context.credited(Component.EVICTION))
            yield AnnealingPass(share / count, HOT, START_COLD, part=Component.EVICTION)

    def _lagrangian_passes(self, share: float) -> Iterator[AnnealingPass]:
        for events in self._lagrangian_starts:
            self._begin(events, self._context.credited(Component.LAGRANGIAN))
            yield self._warm(share / len(self._lagrangian_starts), Component.LAGRANGIAN)

    def _make_starts(self, moves: int, budget: TimeBudget) -> bool:
        """Make starts by eviction and by the Lagrange multiplier of the deadline. False ends the run."""
        go_on = True
        if self._context.has(Component.EVICTION):
            with self._context.timed(Component.EVICTION):
                go_on = self._evict(moves, budget)
        if go_on and self._context.has(Component.LAGRANGIAN):
            with self._context.timed(Component.LAGRANGIAN):
                go_on = self._make_lagrangian_starts(moves, budget)
        return go_on

    def _make_lagrangian_starts(self, moves: int, budget: TimeBudget) -> bool:
        """Make starts by a Lagrange multiplier in place of the deadline, if the deadline binds. False ends the run."""
        if self._problem.deadline == np.inf:
            return True
        moves = int(LAGRANGIAN_SHARE * moves / (TRIALS + 2 * REPAIR_TRIALS))
        in_time = len(self._evicted) > 0 and self._evicted[0].time <= self._problem.deadline
        multiplier = MultiplierSearch(0.0 if in_time else FIRST)
        found: dict[bool, Incumbent] = {}
        last = None
        for _ in range(TRIALS):
            last = self._search_with(multiplier.now, last, np.inf, moves, budget)
            if last is None:
                return not budget.expired
            late = last.time > self._problem.deadline
            if multiplier.now == 0.0 and not late:
                return not budget.expired
            if not late:
                self.keep(last)
            if budget.expired:
                return False
            found[late] = last
            multiplier.update(late)
        lower = REPAIR_FACTOR * multiplier.low
        for late, one in found.items():
            repaired = self._search_with(lower, one, self._problem.deadline, REPAIR_TRIALS * moves, budget)
            self.keep(repaired)
            found[late] = repaired or one
        self._lagrangian_starts = [one.events for one in found.values()]
        return not budget.expired

    def _search_with(
        self, multiplier: float, start: Incumbent | None, deadline: float, moves: int, budget: TimeBudget
    ) -> Incumbent | None:
        """The best schedule that is found if a second costs ``multiplier``; None if none is found."""
        problem = replace(with_multiplier(self._problem, multiplier), deadline=deadline)
        search = Annealer(problem, self._seed, self._orders, self._context.within(Component.LAGRANGIAN))
        if start is not None:
            search.adopt(start.events)
        search.run(moves, budget)
        source = self._context.credited(Component.LAGRANGIAN)
        return search.incumbent and evaluated(self._problem, search.incumbent.events, source)

    def _begin(self, events: Ints, source: Component | None) -> bool:
        """Set the state that the next pass starts from. False, and nothing changes, if ``events`` are no schedule."""
        if not annealing.start_from(self._problem, self._work, self._state, events, len(events)):
            return False
        self._start_j, self._start_source = float(self._state.figures[BEST]), source
        self._best = None
        self._note_best()
        return True

    def _evict(self, moves: int, budget: TimeBudget) -> bool:
        """Make schedules by eviction, as many as take the time of their share of the moves. False ends the run."""
        passes = np.clip(EVICTION_SHARE * moves / len(self._order), LEAST_EVICTIONS, MOST_EVICTIONS)
        enough = ENOUGH_EVICTED
        turns = [
            by_eviction(self._problem, order, self._choice, -(-int(passes) // len(self._orders)), budget)
            for order in self._orders
        ]
        for made in chain.from_iterable(zip(*turns, strict=True)):
            made = made and replace(made, source=self._context.credited(Component.EVICTION))
            enough -= made is not None
            if made is not None and not any(same(self._cost(made), self._cost(one)) for one in self._evicted):
                self._evicted = sorted([*self._evicted, made], key=self._cost)
            if budget.expired:
                return False
            if enough == 0:
                break
        return True

    def _cost(self, one: Incumbent) -> float:
        """Energy, and the penalty for being late."""
        return one.energy + float(self._state.figures[PER_SECOND]) * max(0.0, one.time - self._problem.deadline)

    def _offspring_passes(self, share: float) -> Iterator[AnnealingPass]:
        share /= OFFSPRING
        for _ in range(OFFSPRING):
            offspring = self._offspring() if self._context.has(Component.CROSSOVER) else None
            if offspring is None:
                yield AnnealingPass(share, HOT, COLD)
            else:
                self._begin(offspring, self._context.credited(Component.CROSSOVER))
                yield self._warm(share, Component.CROSSOVER)

    def _cycles(self, share: float, first_restart: int) -> Iterator[AnnealingPass]:
        for cycle in range(CYCLES):
            incumbent = self.incumbent
            restart = cycle % 2 == first_restart
            if restart and incumbent is not None:
                self.adopt(incumbent.events, incumbent.source)
            hot = WARM if restart else HOT
            yield AnnealingPass(share * 2**cycle / (2**CYCLES - 1), hot, COLD)

    def _warm(self, share: float, part: Component) -> AnnealingPass:
        return AnnealingPass(share, WARM, COLD, part=part)

    def _capped_passes(self, moves: int, share: float, balance: FirstRun) -> Iterator[AnnealingPass]:
        """Under an energy cap, each from the best schedule and with the first penalties.

        The penalties of passes without a cap say nothing about those needed under it.
        """
        count = max(1, round(share * moves / (balance.capped_moves * len(self._order)))) if share > 0 else 0
        for _ in range(count):
            incumbent = self.incumbent
            if incumbent is None:
                return
            self.adopt(incumbent.events, incumbent.source)
            self._reset_penalties()
            yield AnnealingPass(share / count, CAPPED_HOT, CAPPED_COLD, balance.above, Component.ENERGY_CAP)

    def _reset_penalties(self) -> None:
        """Set the first penalties: E0 for an overflow of the whole budget, and E0 for a delay of the store-all time."""
        figures, problem = self._state.figures, self._problem
        figures[PER_BYTE] = self._unit_j / max(1, problem.budget)
        if problem.deadline < np.inf:
            figures[PER_SECOND] = self._unit_j / max(float(problem.node_time.sum()), 1e-12)

    def _offspring(self) -> Ints | None:
        """The best offspring of two random parents; None if there is none that differs from both."""
        if len(self._parents) < 2:
            return None
        one, other = self._choice.choice(len(self._parents), 2, replace=False)
        figures = self._state.figures
        with self._context.timed(Component.CROSSOVER):
            return cross(
                self._problem,
                self._parents[one].events,
                self._parents[other].events,
                float(figures[PER_BYTE]),
                float(figures[PER_SECOND]),
                self._work,
            )

    def _in_time(self) -> list[Incumbent]:
        """Schedules made by eviction that meet the deadline."""
        return [one for one in self._evicted if one.time <= self._problem.deadline]

    def _annealed(self) -> Incumbent | None:
        """The best schedule of all passes so far."""
        return cheapest(self._best, *self._parents[:1])

    def _note_best(self) -> None:
        """Publish the best schedule since the last start: other threads read it while this one works."""
        best_j = float(self._state.figures[BEST])
        if np.isfinite(best_j) and (self._best is None or best_j != self._noted_j):
            source = self._start_source if best_j >= self._start_j else self._context.credited(self._part)
            self._best = evaluated(self._problem, self._state.best[: self._state.lengths[BEST_LENGTH]], source)
            self._noted_j = best_j

    def _is_least(self, energy: float) -> bool:
        return energy <= self._store_all_j * (1 + SAME)

    def _event_energy(self) -> float:
        """Joules of one extra event: the overhead of the best annealed schedule, divided by its extra events."""
        incumbent = self._annealed()
        if incumbent is None:
            return EVENT_ENERGY * self._unit_j / max(1, len(self._order))
        extras = max(1, len(incumbent.events) - len(self._order))
        return max(incumbent.energy - self._store_all_j, 1e-9 * self._unit_j) / extras

    def _anneal(self, moves: int, which: AnnealingPass, budget: TimeBudget) -> bool:
        """Make one pass of ``moves`` moves. False if the run ends."""
        figures = self._state.figures
        figures[TEMPERATURE] = which.hot * self._event_energy()
        figures[COOLING_FACTOR] = (which.cold / which.hot) ** (1 / max(1, moves))
        figures[ENERGY_CAP] = (float(figures[BEST]) + which.above * self._event_energy()) * (1 - SAME)
        self._part = which.part
        go_on = not budget.expired
        with self._context.timed(which.part):
            while moves > 0 and go_on:
                chunk = min(moves, self._chunk)
                annealing.anneal(self._problem, self._work, self._other, self._delta, self._spare, self._state, chunk)
                budget.spend(chunk * self._move_s)
                self._note_best()
                moves -= chunk
                go_on = not budget.expired and not self._is_least(float(figures[BEST]))
        self.keep(self._best)
        return go_on


def moves_per_second(problem: Problem) -> float:
    """Moves a reference second. It depends on the size alone, so that equal problems get equal effort."""
    return 1 / (MOVE_S + MOVE_S_PER_SIZE * graph_size(problem))
