# SPDX-License-Identifier: Apache-2.0
"""The search: how long to anneal, at which temperatures, and from where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from poet_planner.solve.instance import Ints, Problem, size
from poet_planner.solve.params import FirstRun
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
from poet_planner.solve.search.lagrangian import Price, priced
from poet_planner.solve.search.moves import MOST_RESTORED
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

CHUNK_MOVES = 3000  # between two looks at the budget; for large graphs as many as take so long: seconds
CHUNK_S = 0.1
# A move on one core of a usual computer, and what each node, value and edge adds: seconds.
MOVE_S = 4e-6
MOVE_S_PER_SIZE = 4.7e-9


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


class Search:
    """One annealer; call `run` as often as wanted, it goes on from the best schedule so far.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules. Their repair strategies take turns.
    order : (n,) or None
        A topological order of the nodes to begin with; None for their own.
    context : Context or None
        None: all parts are on, and nobody asks what they did.
    """

    def __init__(self, problem: Problem, seed: int, order: Ints | None = None, context: Context | None = None) -> None:
        self._problem = problem
        self._chunk = max(1, min(CHUNK_MOVES, int(CHUNK_S * moves_per_second(problem))))
        self._seed = seed
        self._context = context or Context()
        self._params = self._context.params.annealing
        random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
        self._work = new_workspace(problem, random, MOST_RESTORED)
        self._other = new_workspace(problem, random, MOST_RESTORED)
        self._trial = new_delta_evaluation(problem)
        self._spare = new_delta_evaluation(problem)
        self._plain_energy = float(problem.node_energy.sum())
        self._state = new_state(capacity(problem))
        self._penalise()
        strategy = self._params.repair_strategies[seed % len(self._params.repair_strategies)]
        self._state.figures[SPLITTING] = strategy.share
        self._state.lengths[SPLIT_REPAIRS] = strategy.repairs
        self._state.lengths[CHANGED_FIRST] = strategy.changed_first
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
        if budget.expired:
            return
        first, self._started = not self._started, True
        if first and not self._starts_made(moves, budget):
            return
        for cooling in self._coolings(moves, first):
            if not self._cool(int(moves * cooling.share), cooling, budget):
                return

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        """Anneal from the current state at low temperature; what that finds is its source's."""
        part = self._start_source or Part.ANNEALING
        self._cool(moves, Cooling(1.0, self._params.warm, self._params.cold, part=part), budget)

    def keep(self, found: Incumbent | None) -> None:
        """Keep a schedule, and let it be a parent if it is among the best."""
        self._kept = ranked([*self._kept, found])
        if found is None or any(same(found.energy, one.energy) for one in self._parents):
            return
        self._parents = sorted([*self._parents, found], key=lambda one: one.energy)[: self._params.parents]

    def wander(self, moves: int, budget: TimeBudget = UNLIMITED) -> Incumbent | None:
        """The current state in another order that costs no more, which is the current state then."""
        while moves > 0 and not budget.expired:
            chunk = min(moves, self._chunk)
            annealing.wander(self._problem, self._work, self._other, self._trial, self._state, chunk)
            moves -= chunk
        now = self._state.current[: self._state.lengths[CURRENT_LENGTH]]
        return measured(self._problem, now, self._start_source)

    def _coolings(self, moves: int, first: bool) -> Iterator[Cooling]:
        """One after the other; each begins from the state that is set here."""
        params, lagrangian = self._params, self._context.params.lagrangian
        capped = self._context.has(Part.ENERGY_CAP)
        if not first:
            capped_share = params.capped_share * capped
            return chain(self._cycles(1 - capped_share, 1), self._below(moves, capped_share, params.loose))
        balance = params.binding if self._priced else params.loose
        left = 1 - (lagrangian.share + lagrangian.pass_share) * bool(self._priced)
        if moves < params.many_moves * len(self._plain):
            starts = self._starts(moves, left * params.start_share, 1)
            rest = self._cycles(left * (1 - params.start_share), 0)
        else:
            starts = self._starts(moves, left * balance.start_share, params.many_starts)
            share = left * (1 - balance.start_share)
            capped_share = balance.capped_share * capped
            below = self._below(moves, share * capped_share + balance.further * capped, balance)
            rest = chain(self._children(share * (1 - capped_share)), below)
        return chain(self._priced_starts(lagrangian.pass_share), starts, rest)

    def _starts(self, moves: int, share: float, rounds: int) -> Iterator[Cooling]:
        """From plain training, and at last from the best schedule made by eviction.

        Where the first comes to no schedule, all others are from different ones made by eviction.
        """
        hots = self._params.start_hot * rounds
        for number, hot in enumerate(hots, start=1):
            if number == 2 and self._annealed() is None and self._evicted:
                yield from self._evicted_starts(moves, share * (1 - 1 / len(hots)))
                return
            if number == len(hots) and self._evicted:
                events, part = self._evicted[0].events, Part.EVICTION
            else:
                events, part = self._plain, Part.ANNEALING
            self._begin(events, self._context.credited(part))
            yield Cooling(share / len(hots), hot, self._params.start_cold, part=part)

    def _evicted_starts(self, moves: int, share: float) -> Iterator[Cooling]:
        """The best and others, good and bad: which one leads far is not to be seen."""
        most = max(1, int(share * moves / (self._context.params.eviction.start_moves * len(self._plain))))
        count = min(most, len(self._evicted))
        for number in np.linspace(0, len(self._evicted) - 1, count).astype(int):
            events = self._evicted[number].events
            self._begin(events, self._context.credited(Part.EVICTION))
            yield Cooling(share / count, self._params.hot, self._params.start_cold, part=Part.EVICTION)

    def _priced_starts(self, share: float) -> Iterator[Cooling]:
        for events in self._priced:
            self._begin(events, self._context.credited(Part.LAGRANGIAN))
            yield self._warm(share / len(self._priced), Part.LAGRANGIAN)

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
        params = self._context.params.lagrangian
        moves = int(params.share * moves / (params.trials + 2 * params.repair_trials))
        in_time = len(self._evicted) > 0 and self._evicted[0].time <= self._problem.deadline
        price = Price(0.0 if in_time else params.first, params=params)
        found: dict[bool, Incumbent] = {}
        last = None
        for _ in range(params.trials):
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
        lower = params.repair_factor * price.low
        for late, one in found.items():
            mended = self._at_price(lower, one, self._problem.deadline, params.repair_trials * moves, budget)
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
        params = self._context.params.eviction
        passes = np.clip(params.passes_share * moves / len(self._plain), params.least_passes, params.most_passes)
        enough = params.enough
        for made in by_eviction(self._problem, self._plain, self._choice, int(passes), budget, params):
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
        share /= self._params.offspring
        for _ in range(self._params.offspring):
            child = self._child() if self._context.has(Part.CROSSOVER) else None
            if child is None:
                yield Cooling(share, self._params.hot, self._params.cold)
            else:
                self._begin(child, self._context.credited(Part.CROSSOVER))
                yield self._warm(share, Part.CROSSOVER)

    def _cycles(self, share: float, first_restart: int) -> Iterator[Cooling]:
        cycles = self._params.cycles
        for cycle in range(cycles):
            incumbent = self.incumbent
            restart = cycle % 2 == first_restart
            if restart and incumbent is not None:
                self.adopt(incumbent.events, incumbent.source)
            hot = self._params.warm if restart else self._params.hot
            yield Cooling(share * 2**cycle / (2**cycles - 1), hot, self._params.cold)

    def _warm(self, share: float, part: Part) -> Cooling:
        return Cooling(share, self._params.warm, self._params.cold, part=part)

    def _below(self, moves: int, share: float, balance: FirstRun) -> Iterator[Cooling]:
        """From the best schedule each time, and with the first penalties: what RAM and time cost there says nothing."""
        count = max(1, round(share * moves / (balance.capped_moves * len(self._plain)))) if share > 0 else 0
        for _ in range(count):
            incumbent = self.incumbent
            if incumbent is None:
                return
            self.adopt(incumbent.events, incumbent.source)
            self._penalise()
            params = self._params
            yield Cooling(share / count, params.capped_hot, params.capped_cold, balance.above, Part.ENERGY_CAP)

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
            return self._params.event_energy * plain / max(1, len(self._plain))
        extras = max(1, len(incumbent.events) - len(self._plain))
        return max(incumbent.energy - self._plain_energy, 1e-9 * plain) / extras

    def _cool(self, moves: int, cooling: Cooling, budget: TimeBudget) -> bool:
        """Its temperatures, and what it may rise, are in units of `_event_energy`."""
        figures = self._state.figures
        figures[TEMPERATURE] = cooling.hot * self._event_energy()
        figures[COOLING_FACTOR] = (cooling.cold / cooling.hot) ** (1 / max(1, moves))
        figures[ENERGY_CAP] = (float(figures[BEST]) + cooling.above * self._event_energy()) * (1 - SAME)
        self._part = cooling.part
        go_on = not budget.expired
        with self._context.timed(cooling.part):
            while moves > 0 and go_on:
                chunk = min(moves, self._chunk)
                annealing.anneal(self._problem, self._work, self._other, self._trial, self._spare, self._state, chunk)
                self._note_best()
                moves -= chunk
                go_on = not budget.expired and not self._is_least(float(figures[BEST]))
        self.keep(self._best)
        return go_on


def moves_per_second(problem: Problem) -> float:
    """A rough figure, from the size alone so that the same problem is always given the same effort."""
    return 1 / (MOVE_S + MOVE_S_PER_SIZE * size(problem))
