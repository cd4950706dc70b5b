# SPDX-License-Identifier: Apache-2.0
"""The search: how long to anneal, at which temperatures, and from where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from poet_planner.solve.instance import Ints, Problem, size
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
from poet_planner.solve.search.incumbent import SAME, Incumbent, cheapest, measured, ranked, same
from poet_planner.solve.search.lagrangian import FIRST_PRICE, Price, priced
from poet_planner.solve.search.moves import MOST_RESTORED
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

CHUNK_MOVES = 3000
# Temperatures, in units of what one event beyond plain training costs in the best schedule.
HOT = 1.0
WARM = 0.3
COLD = 0.02
# Of coolings below the best schedule, and their share of a later run's moves.
BELOW_HOT = 0.2
BELOW_COLD = 0.002
BELOW_SHARE_LATER = 0.6
# Of the coolings from plain training. Some networks want the hotter ones, others the colder.
START_HOT = (30.0, 5.0, 1.0)
START_COLD = 0.01
# Their share of the first run's moves.
STARTS_SHARE = 0.39
# Coolings from the best and from where the last one ended.
CYCLES = 4
# Some starts are made by passes of eviction, each of which takes as long as a move a node, roughly: so many, unless
# enough of them have found a way before.
MOST_PASSES = 128
LEAST_PASSES = 4
PASSES_SHARE = 0.06
ENOUGH_EVICTED = 32
# Where coolings from plain training come to no schedule, those are starts instead, with so many moves a node each.
START_MOVES = 100
# With so many moves for each node, more starts and their children do better than long coolings.
MANY_MOVES = 600
MANY_STARTS = 2
CHILDREN = 16
PARENTS = 6
# Where the deadline binds: how many prices of time are tried, their share of a run's moves, and that of the coolings
# from the last schedule that was late and the last in time. Both are mended first, with as many moves as so many
# prices, to fill the deadline: at a price so much lower that what saves most energy for its time is worth its while.
PRICES = 8
PRICES_SHARE = 0.5
MENDING = 3
MENDING_PRICE = 0.7
PRICED_SHARE = 0.12
# That cost before there is a schedule, as a share of plain training's for each node.
COST_SHARE = 0.01
# A move, and for each node, value and edge: roughly, on one core.
MOVE_S = 4e-6
MOVE_S_PER_SIZE = 4.7e-9


@dataclass(frozen=True)
class Manner:
    """What an annealer does about overflow.

    Attributes
    ----------
    share : float
        How often it drops and restores a value there.
    repairs : int
        How many more at once.
    changed_first : bool
        Whether it is always rather one that is there because of the move that is mended; else every second time.
    """

    share: float
    repairs: int
    changed_first: bool


# Some networks want the one, others the other.
MANNERS = (Manner(0.7, 0, changed_first=False), Manner(0.3, 3, changed_first=True))


@dataclass(frozen=True)
class Cooling:
    """One falling temperature.

    Attributes
    ----------
    share : float
        Of a run's moves.
    hot, cold : float
        Temperatures from and to.
    above : float
        How far the energy may rise above that of the best schedule, in the same units. Where it may hardly rise, RAM
        and time are what there is to mend: a cheaper schedule is found as soon as both are within their limits.
    part : Part
        What it belongs to.
    """

    share: float
    hot: float
    cold: float
    above: float = np.inf
    part: Part = Part.ANNEALING


@dataclass(frozen=True)
class Balance:
    """How a first run with many moves spends those that prices of time leave it.

    Attributes
    ----------
    starts : float
        Their share.
    below : float
        Of the rest, the share of coolings below the best schedule.
    further : float
        So many times the run's moves besides, for the same coolings.
    below_moves : int
        A node, for each of these.
    above : float
        How far each may rise above the best, as in `Cooling`.
    """

    starts: float
    below: float
    further: float
    below_moves: int
    above: float


LOOSE = Balance(starts=0.48, below=0.33, further=0.0, below_moves=200, above=0.0)
# Where the deadline binds, coolings below the best are what leads to a better family of schedules.
BINDING = Balance(starts=0.25, below=0.8, further=1.0, below_moves=500, above=1.0)


class Search:
    """One annealer; call `run` as often as wanted, it goes on from the best schedule so far.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules. Even and odd ones have different manners.
    order : (n,) or None
        A topological order of the nodes to begin with; None for their own.
    context : Context or None
        None: all parts are on, and nobody asks what they did.
    """

    def __init__(self, problem: Problem, seed: int, order: Ints | None = None, context: Context | None = None) -> None:
        self._problem = problem
        self._seed = seed
        self._context = context or Context()
        random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
        self._work = new_workspace(problem, random, MOST_RESTORED)
        self._other = new_workspace(problem, random, MOST_RESTORED)
        self._trial = new_delta_evaluation(problem)
        self._spare = new_delta_evaluation(problem)
        self._plain_energy = float(problem.node_energy.sum())
        self._state = new_state(capacity(problem))
        self._penalise()
        manner = MANNERS[seed % len(MANNERS)]
        self._state.figures[SPLITTING] = manner.share
        self._state.lengths[SPLIT_REPAIRS] = manner.repairs
        self._state.lengths[CHANGED_FIRST] = manner.changed_first
        self._choice = np.random.default_rng(seed)
        self._parents: list[Incumbent] = []
        self._kept: list[Incumbent] = []
        self._evicted: list[Incumbent] = []
        self._priced: list[Ints] = []
        self._plain = np.arange(len(problem.node_time), dtype=np.int64) if order is None else order
        self._started = False
        # What the current pass began with, and what it belongs to: one of both is the source of what it finds.
        self._start_j = np.inf
        self._start_source: Part | None = None
        self._part = Part.ANNEALING
        self._best: Incumbent | None = None
        self._noted_j = np.inf
        self._begin(self._plain, self._context.credited(Part.ANNEALING))

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        return cheapest(*self._in_time(), self._annealed())

    @property
    def has_least(self) -> bool:
        """Whether the best schedule costs no more than plain training, and so is one of the best there are."""
        # Without measuring anything: this is asked again and again.
        found = [*self._in_time(), *self._parents[:1]]
        return self._is_least(min([float(self._state.figures[BEST]), *(one.energy for one in found)]))

    @property
    def found(self) -> list[Incumbent]:
        """The best schedule so far, and others that coolings ended with: the cheapest first."""
        return ranked([self.incumbent, *self._kept])

    def adopt(self, events: Ints, source: Part | None = None) -> bool:
        """Go on from ``events``, which ``source`` found; False, and nothing changes, if they are no schedule.

        Nor may they be too many.
        """
        if len(events) > len(self._state.current):
            return False
        self.keep(self._best)
        adopted = self._begin(events, source)
        self._started |= adopted
        return adopted

    def run(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal for ``moves`` moves, or until a schedule is found that costs no more than plain training.

        The first run makes a schedule by eviction and cools down from plain training a few times and from that, then
        from children of what it has found, and at last below the best, for about as many moves again where the deadline
        binds; or, where the moves are few for the graph, in cycles: four, each twice as long as the one before, from
        the best and from where the last one ended in turn. A later run cools in cycles, then below the best.

        Parameters
        ----------
        budget : TimeBudget
            Asked every few hundredths of a second.
        """
        first, self._started = not self._started, True
        if first and not self._starts_made(moves, budget):
            return
        for cooling in self._coolings(moves, first):
            if not self._cool(int(moves * cooling.share), cooling, budget):
                return

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal from the current state at low temperature; what that finds is its source's."""
        self._cool(moves, Cooling(1.0, WARM, COLD, part=self._start_source or Part.ANNEALING), budget)

    def keep(self, found: Incumbent | None) -> None:
        """Keep a schedule, and let it be a parent if it is among the best."""
        self._kept = ranked([*self._kept, found])
        if found is None or any(same(found.energy, one.energy) for one in self._parents):
            return
        self._parents = sorted([*self._parents, found], key=lambda one: one.energy)[:PARENTS]

    def wander(self, moves: int) -> Incumbent | None:
        """The current state in another order that costs no more, which is the current state then."""
        annealing.wander(self._problem, self._work, self._other, self._trial, self._state, moves)
        now = self._state.current[: self._state.lengths[CURRENT_LENGTH]]
        return measured(self._problem, now, self._start_source)

    def _coolings(self, moves: int, first: bool) -> Iterator[Cooling]:
        """One after the other; each begins from the state that is set here."""
        capped = self._context.has(Part.ENERGY_CAP)
        if not first:
            below_share = BELOW_SHARE_LATER * capped
            return chain(self._cycles(1 - below_share, 1), self._below(moves, below_share, LOOSE))
        balance = BINDING if self._priced else LOOSE
        left = 1 - (PRICES_SHARE + PRICED_SHARE) * bool(self._priced)
        if moves < MANY_MOVES * len(self._plain):
            starts, rest = self._starts(moves, left * STARTS_SHARE, 1), self._cycles(left * (1 - STARTS_SHARE), 0)
        else:
            starts = self._starts(moves, left * balance.starts, MANY_STARTS)
            share = left * (1 - balance.starts)
            below_share = balance.below * capped
            below = self._below(moves, share * below_share + balance.further * capped, balance)
            rest = chain(self._children(share * (1 - below_share)), below)
        return chain(self._priced_starts(PRICED_SHARE), starts, rest)

    def _starts(self, moves: int, share: float, rounds: int) -> Iterator[Cooling]:
        """From plain training, and at last from the best schedule made by eviction.

        Where the first comes to no schedule, all others are from different ones made by eviction.
        """
        hots = START_HOT * rounds
        for number, hot in enumerate(hots, start=1):
            if number == 2 and self._annealed() is None and self._evicted:
                yield from self._evicted_starts(moves, share * (1 - 1 / len(hots)))
                return
            if number == len(hots) and self._evicted:
                events, part = self._evicted[0].events, Part.EVICTION
            else:
                events, part = self._plain, Part.ANNEALING
            self._begin(events, self._context.credited(part))
            yield Cooling(share / len(hots), hot, START_COLD, part=part)

    def _evicted_starts(self, moves: int, share: float) -> Iterator[Cooling]:
        """The best and others, good and bad: which one leads far is not to be seen."""
        most = max(1, int(share * moves / (START_MOVES * len(self._plain))))
        count = min(most, len(self._evicted))
        for number in np.linspace(0, len(self._evicted) - 1, count).astype(int):
            events = self._evicted[number].events
            self._begin(events, self._context.credited(Part.EVICTION))
            yield Cooling(share / count, HOT, START_COLD, part=Part.EVICTION)

    def _priced_starts(self, share: float) -> Iterator[Cooling]:
        for events in self._priced:
            self._begin(events, self._context.credited(Part.LAGRANGIAN))
            yield Cooling(share / len(self._priced), WARM, COLD, part=Part.LAGRANGIAN)

    def _starts_made(self, moves: int, budget: TimeBudget) -> bool:
        """Make starts by eviction and with prices of time; False ends the run."""
        go_on = True
        if self._context.has(Part.EVICTION):
            with self._context.timed(Part.EVICTION):
                go_on = self._evict(moves, budget)
        if go_on and self._context.has(Part.LAGRANGIAN):
            with self._context.timed(Part.LAGRANGIAN):
                go_on = self._price(moves, budget)
        return go_on

    def _price(self, moves: int, budget: TimeBudget) -> bool:
        """Where the deadline binds, anneal with prices of time instead, from one to the next."""
        if self._problem.deadline == np.inf:
            return True
        moves = int(PRICES_SHARE * moves / (PRICES + 2 * MENDING))
        in_time = len(self._evicted) > 0 and self._evicted[0].time <= self._problem.deadline
        price = Price(0.0 if in_time else FIRST_PRICE)
        found: dict[bool, Incumbent] = {}
        last = None
        for _ in range(PRICES):
            last = self._at_price(price.now, last, np.inf, moves, budget)
            if last is None:
                return not budget.expired
            late = last.time > self._problem.deadline
            if price.now == 0.0 and not late:
                return not budget.expired
            if not late:
                self.keep(last)
            if budget.expired:
                return False
            found[late] = last
            price.told(late)
        lower = MENDING_PRICE * price.low
        for late, one in found.items():
            mended = self._at_price(lower, one, self._problem.deadline, MENDING * moves, budget)
            self.keep(mended)
            found[late] = mended or one
        self._priced = [one.events for one in found.values()]
        return not budget.expired

    def _at_price(
        self, price: float, start: Incumbent | None, deadline: float, moves: int, budget: TimeBudget
    ) -> Incumbent | None:
        """The best schedule where each second has a price, with its true figures; None where there is none."""
        at_price = priced(self._problem, price)._replace(deadline=deadline)
        search = Search(at_price, self._seed, self._plain, self._context.within(Part.LAGRANGIAN))
        if start is not None:
            search.adopt(start.events)
        search.run(moves, budget)
        source = self._context.credited(Part.LAGRANGIAN)
        return search.incumbent and measured(self._problem, search.incumbent.events, source)

    def _begin(self, events: Ints, source: Part | None) -> bool:
        """Set the state that the next cooling begins from; False, and nothing changes, if they are no schedule."""
        if not annealing.start_from(self._problem, self._work, self._state, events, len(events)):
            return False
        self._start_j, self._start_source = float(self._state.figures[BEST]), source
        self._best = None
        self._note_best()
        return True

    def _evict(self, moves: int, budget: TimeBudget) -> bool:
        """Make schedules by eviction, as many as so many moves are worth, and keep those that differ."""
        passes = np.clip(PASSES_SHARE * moves / len(self._plain), LEAST_PASSES, MOST_PASSES)
        enough = ENOUGH_EVICTED
        for made in by_eviction(self._problem, self._plain, self._choice, int(passes)):
            made = made and replace(made, source=self._context.credited(Part.EVICTION))
            enough -= made is not None
            if made is not None and not any(same(self._cost(made), self._cost(one)) for one in self._evicted):
                self._evicted = sorted([*self._evicted, made], key=self._cost)
            if budget.expired:
                return False
            if enough == 0:
                break
        return True

    def _cost(self, one: Incumbent) -> float:
        """Energy, and what being late costs."""
        return one.energy + float(self._state.figures[PER_SECOND]) * max(0.0, one.time - self._problem.deadline)

    def _children(self, share: float) -> Iterator[Cooling]:
        for _ in range(CHILDREN):
            child = self._child() if self._context.has(Part.CROSSOVER) else None
            if child is None:
                yield Cooling(share / CHILDREN, HOT, COLD)
            else:
                self._begin(child, self._context.credited(Part.CROSSOVER))
                yield Cooling(share / CHILDREN, WARM, COLD, part=Part.CROSSOVER)

    def _cycles(self, share: float, first_restart: int) -> Iterator[Cooling]:
        for cycle in range(CYCLES):
            incumbent = self.incumbent
            restart = cycle % 2 == first_restart
            if restart and incumbent is not None:
                self.adopt(incumbent.events, incumbent.source)
            yield Cooling(share * 2**cycle / (2**CYCLES - 1), WARM if restart else HOT, COLD)

    def _below(self, moves: int, share: float, balance: Balance) -> Iterator[Cooling]:
        """From the best schedule each time, and with the first penalties: what RAM and time cost there says nothing."""
        count = max(1, round(share * moves / (balance.below_moves * len(self._plain)))) if share > 0 else 0
        for _ in range(count):
            incumbent = self.incumbent
            if incumbent is None:
                return
            self.adopt(incumbent.events, incumbent.source)
            self._penalise()
            yield Cooling(share / count, BELOW_HOT, BELOW_COLD, balance.above, Part.ENERGY_CAP)

    def _penalise(self) -> None:
        """Set the penalties: as much as plain training costs, for the whole RAM and for the time it takes."""
        figures, problem = self._state.figures, self._problem
        scale = max(self._plain_energy, 1e-12)
        figures[PER_BYTE] = scale / max(1, problem.budget)
        if problem.deadline < np.inf:
            figures[PER_SECOND] = scale / max(float(problem.node_time.sum()), 1e-12)

    def _child(self) -> Ints | None:
        """Of two parents; None if there are none, or none that differ."""
        if len(self._parents) < 2:
            return None
        one, other = self._choice.choice(len(self._parents), 2, replace=False)
        figures = self._state.figures
        with self._context.timed(Part.CROSSOVER):
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
        """The best schedule of all coolings so far."""
        return cheapest(self._best, *self._parents[:1])

    def _note_best(self) -> None:
        """Keep the best schedule since the last start where other threads may look at it while this one goes on."""
        best_j = float(self._state.figures[BEST])
        if np.isfinite(best_j) and (self._best is None or best_j != self._noted_j):
            source = self._start_source if best_j >= self._start_j else self._context.credited(self._part)
            self._best = measured(self._problem, self._state.best[: self._state.lengths[BEST_LENGTH]], source)
            self._noted_j = best_j

    def _is_least(self, energy: float) -> bool:
        return energy <= self._plain_energy * (1 + SAME)

    def _event_energy(self) -> float:
        """Energy above plain training of one event that plain training lacks, in the best schedule annealed."""
        plain = max(self._plain_energy, 1e-12)
        incumbent = self._annealed()
        if incumbent is None:
            return COST_SHARE * plain / max(1, len(self._plain))
        extras = max(1, len(incumbent.events) - len(self._plain))
        return max(incumbent.energy - self._plain_energy, 1e-9 * plain) / extras

    def _cool(self, moves: int, cooling: Cooling, budget: TimeBudget) -> bool:
        """Its temperatures, and what it may rise, are in units of `_event_energy`."""
        figures = self._state.figures
        figures[TEMPERATURE] = cooling.hot * self._event_energy()
        figures[COOLING_FACTOR] = (cooling.cold / cooling.hot) ** (1 / max(1, moves))
        figures[ENERGY_CAP] = (float(figures[BEST]) + cooling.above * self._event_energy()) * (1 - SAME)
        self._part = cooling.part
        go_on = True
        with self._context.timed(cooling.part):
            while moves > 0 and go_on:
                chunk = min(moves, CHUNK_MOVES)
                annealing.anneal(self._problem, self._work, self._other, self._trial, self._spare, self._state, chunk)
                self._note_best()
                moves -= chunk
                go_on = not budget.expired and not self._is_least(float(figures[BEST]))
        self.keep(self._best)
        return go_on


def moves_per_second(problem: Problem) -> float:
    """A rough figure, from the size alone so that the same problem is always given the same effort."""
    return 1 / (MOVE_S + MOVE_S_PER_SIZE * size(problem))
