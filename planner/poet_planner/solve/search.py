"""The search: how long to anneal, at which temperatures, and from where."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from poet_planner.solve import annealing
from poet_planner.solve.annealing import (
    BEST,
    BEST_LENGTH,
    COOLING,
    PER_BYTE,
    PER_SECOND,
    TEMPERATURE,
    State,
)
from poet_planner.solve.problem import Ints, Problem

CHUNK_MOVES = 3000
SEEDS = 2
START_SHARE = 0.13
CYCLES = 4
# Temperatures, in units of what one event beyond plain training costs in the best schedule.
HOT = 1.0
WARM = 0.3
COLD = 0.02
# Of the coolings from plain training. Some networks want the hotter ones, others the colder.
START_HOT = (30.0, 5.0, 1.0)
START_COLD = 0.01
# That cost before there is a schedule, as a share of plain training's for each node.
COST_SHARE = 0.01
WAIT_S = 0.02


@dataclass(frozen=True)
class Incumbent:
    """A schedule within the budget and the deadline, as events (see `annealing`): joules, seconds, bytes."""

    events: Ints
    energy: float
    time: float
    peak: int


def measured(problem: Problem, events: Ints) -> Incumbent | None:
    """Energy, time and peak of ``events``, within the limits or not; None if they are no schedule."""
    work = annealing.new_workspace(problem, np.ones(1, dtype=np.uint64))
    result = annealing.evaluate(problem, events, len(events), work)
    if result.length < 0:
        return None
    peak = int(work.memory[: result.length].max(initial=0))
    return Incumbent(work.kept[: result.length].copy(), float(result.energy), float(result.time), peak)


class Search:
    """One annealer; call `run` as often as wanted, it goes on from the best schedule so far.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules.
    order : (n,) or None
        A topological order of the nodes to begin with; None for their own.
    """

    def __init__(self, problem: Problem, seed: int, order: Ints | None = None) -> None:
        self._problem = problem
        random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
        self._work = annealing.new_workspace(problem, random)
        self._trial = annealing.new_workspace(problem, random)
        self._spare = annealing.new_workspace(problem, random)
        events = annealing.capacity(problem)
        self._plain_energy = float(problem.node_energy.sum())
        scale = max(self._plain_energy, 1e-12)
        self._state = State(
            current=np.zeros(events, dtype=np.int64),
            best=np.zeros(events, dtype=np.int64),
            figures=np.zeros(8),
            lengths=np.zeros(5, dtype=np.int64),
        )
        figures = self._state.figures
        figures[BEST] = np.inf
        figures[PER_BYTE] = scale / max(1, problem.budget)
        figures[PER_SECOND] = scale / max(float(problem.node_time.sum()), 1e-12)
        self._plain = np.arange(len(problem.node_time), dtype=np.int64) if order is None else order
        self._started = False
        annealing.start_from(problem, self._work, self._state, self._plain, len(self._plain))

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        if not np.isfinite(self._state.figures[BEST]):
            return None
        return measured(self._problem, self._state.best[: self._state.lengths[BEST_LENGTH]])

    def adopt(self, events: Ints) -> bool:
        """Go on from ``events``; False, and nothing changes, if they are no schedule or too many."""
        if len(events) > len(self._state.current):
            return False
        adopted = bool(annealing.start_from(self._problem, self._work, self._state, events, len(events)))
        self._started |= adopted
        return adopted

    def run(self, moves: int, between: Callable[[], bool] = lambda: True) -> None:
        """Anneal for ``moves`` moves: a few coolings from plain training at first, then four cycles, each twice as long
        as the one before, from the best and from where the last one ended in turn.

        Parameters
        ----------
        between : callable
            Called every few hundredths of a second; False ends the run.
        """
        for share, hot, cold, restart in self._cycles():
            self._adopt_best(restart)
            if not self._cool(int(moves * share), hot, cold, between):
                return

    def refine(self, moves: int, between: Callable[[], bool] = lambda: True) -> None:
        """Anneal from the current state at low temperature."""
        self._cool(moves, WARM, COLD, between)

    def _cycles(self) -> Iterator[tuple[float, float, float, bool]]:
        """Share of the moves, temperatures, and whether to start from the best, of one cooling after the other."""
        first = not self._started
        left = 1.0
        if first:
            self._started = True
            for hot in START_HOT:
                annealing.start_from(self._problem, self._work, self._state, self._plain, len(self._plain))
                left -= START_SHARE
                yield START_SHARE, hot, START_COLD, False
        for cycle in range(CYCLES):
            restart = (cycle % 2 == 0) == first
            yield left * 2**cycle / (2**CYCLES - 1), WARM if restart else HOT, COLD, restart

    def _event_energy(self) -> float:
        """Energy above plain training of one event that plain training lacks, in the best schedule."""
        figures, plain = self._state.figures, max(self._plain_energy, 1e-12)
        if not np.isfinite(figures[BEST]):
            return COST_SHARE * plain / max(1, len(self._plain))
        extras = max(1, int(self._state.lengths[BEST_LENGTH]) - len(self._plain))
        return max(float(figures[BEST]) - self._plain_energy, 1e-9 * plain) / extras

    def _adopt_best(self, wanted: bool) -> None:
        incumbent = self.incumbent
        if wanted and incumbent is not None:
            self.adopt(incumbent.events)

    def _cool(self, moves: int, hot: float, cold: float, between: Callable[[], bool]) -> bool:
        """``hot`` and ``cold`` are in units of `_event_energy`."""
        figures = self._state.figures
        figures[TEMPERATURE] = hot * self._event_energy()
        figures[COOLING] = (cold / hot) ** (1 / max(1, moves))
        while moves > 0:
            chunk = min(moves, CHUNK_MOVES)
            annealing.anneal(self._problem, self._work, self._trial, self._spare, self._state, chunk)
            moves -= chunk
            if not between():
                return False
        return True


class Aside:
    """An annealer at work in a thread of its own: ``search.run(moves)``."""

    def __init__(self, search: Search, moves: int) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=search.run, args=(moves, lambda: not self._stop.is_set()), daemon=True)
        self._thread.start()

    def wait(self, go_on: Callable[[], bool]) -> None:
        """Until all moves are made; or until ``go_on`` says no, which ends it."""
        while self._thread.is_alive() and go_on():
            self._thread.join(WAIT_S)
        self.stop()

    def stop(self) -> None:
        """End it, whatever it has found."""
        self._stop.set()
        self._thread.join()


class Searches:
    """Annealers with different seeds, each in a thread of its own; what one finds best, all go on from.

    Parameters
    ----------
    seed : int
        Equal seeds and equal calls give equal schedules, as long as no call is ended early.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self._searches = [Search(problem, SEEDS * seed + k) for k in range(SEEDS)]

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far."""
        found = [search.incumbent for search in self._searches]
        return min((one for one in found if one is not None), key=lambda one: one.energy, default=None)

    def adopt(self, events: Ints) -> bool:
        """Let the first annealer go on from ``events``; False, and nothing changes, if they are no schedule."""
        return self._searches[0].adopt(events)

    def refine(self, moves: int) -> None:
        """Let the first annealer search on at low temperature."""
        self._searches[0].refine(moves)

    def run(self, moves: int, between: Callable[[], bool] = lambda: True) -> None:
        """Anneal all of them for ``moves`` moves each; ``between`` is called in this thread, and False ends the run."""
        self._share_best()
        asides = [Aside(search, moves) for search in self._searches[1:]]
        try:
            self._searches[0].run(moves, between)
            for aside in asides:
                aside.wait(between)
        finally:
            for aside in asides:
                aside.stop()

    def _share_best(self) -> None:
        incumbent = self.incumbent
        if incumbent is not None:
            for search in self._searches:
                search.adopt(incumbent.events)


def moves_per_second(problem: Problem) -> float:
    """A rough figure, from the size alone so that the same problem is always given the same effort."""
    return 5e7 / (len(problem.node_time) + len(problem.input_value) + len(problem.size))
