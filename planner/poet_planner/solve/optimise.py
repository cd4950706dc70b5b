"""From a graph, a RAM budget and a deadline to a schedule with addresses and a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.graph import Graph
from poet_planner.graph_file import graph_hash
from poet_planner.schedule import Schedule, Status
from poet_planner.solve.arena import Placement, place
from poet_planner.solve.decode import Decoded, decode
from poet_planner.solve.infeasible import conceivable, no_schedule
from poet_planner.solve.instants import producers
from poet_planner.solve.options import FORMULATIONS, NoScheduleError, OptimiseOptions, Progress
from poet_planner.solve.paper import plan_by_algorithm_1
from poet_planner.solve.problem import Ints, Problem, build_problem, node_need
from poet_planner.solve.proof import Proof
from poet_planner.solve.search import Incumbent, Search, Searches, moves_per_second
from poet_planner.solve.solvers import solver_named

SEARCH_S = 1.0
SEARCH_S_PER_NODE = 0.015
MOST_SEARCH_S = 20.0
SEARCH_SHARE = 0.3
PLACING_SHARE = 0.25
MOST_PLACING_S = 8.0
ADDRESSES_S = 3.0
# A plan made again gets so much of the time limit, even where that is over: the first schedule found is a poor one.
AGAIN_SHARE = 0.05
MOST_ATTEMPTS = 12
# Where the best schedule cannot be given addresses, earlier ones are tried whose overhead is so much larger at most;
# and one whose overhead is only so much larger does.
LITTLE = 0.02
NEAR = 1e-3
MOST_CANDIDATES = 4


def optimise(
    graph: Graph, ram_bytes: int, deadline_s: float | None = None, options: OptimiseOptions | None = None
) -> Schedule:
    """The schedule of least energy within ``ram_bytes`` (resident tensors included) and ``deadline_s``.

    A `KeyboardInterrupt` ends the work early; the best schedule so far is the answer.

    Raises
    ------
    NoScheduleError
        If there is none; it says the smallest RAM and the shortest time that would do.
    UserError
        If an option has no such value, or the solver is not installed.
    KeyboardInterrupt
        If it comes before there is any schedule.
    """
    options = options or OptimiseOptions()
    if options.formulation not in FORMULATIONS:
        raise UserError(f"no formulation {options.formulation!r}; there are {', '.join(FORMULATIONS)}")
    return _Run(graph, ram_bytes, deadline_s, options).schedule()


@dataclass(frozen=True)
class _Placed:
    """A schedule with addresses; whether they are within the budget, the placement says."""

    incumbent: Incumbent
    decoded: Decoded
    placement: Placement


class _Run:
    """One call of `optimise`."""

    def __init__(self, graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> None:
        self._graph = graph
        self._ram_bytes = ram_bytes
        self._deadline_s = deadline_s
        self._options = options
        self._started_s = time.monotonic()
        self._problem = build_problem(graph, ram_bytes, deadline_s, options.paging)
        self._search = Searches(self._problem, options.seed)
        self._trail: list[Incumbent] = []
        self._proof = Proof(self._problem, self._search, solver_named(options.solver), options.gap, options.seed)

    def schedule(self) -> Schedule:
        if not conceivable(self._problem):
            raise self._impossible()
        if self._options.formulation == "paper":
            solver = solver_named(self._options.solver)
            return self._finished(
                self._placed(plan_by_algorithm_1(self._problem, solver, self._seconds_left, self._tell))
            )
        try:
            self._improve()
        except KeyboardInterrupt:
            if self._search.incumbent is None:
                raise
        incumbent = self._search.incumbent
        if incumbent is None:
            raise self._impossible()
        return self._finished(self._placed(incumbent))

    def _impossible(self) -> NoScheduleError:
        return no_schedule(self._graph, self._problem, self._options.seed, 0.5 * self._options.time_limit_s)

    def _no_addresses(self, smallest_bytes: int, time_s: float) -> NoScheduleError:
        return NoScheduleError(
            f"schedules fit {self._ram_bytes} bytes of RAM, but none that was tried could be given addresses there: "
            f"the smallest RAM in which one could is {smallest_bytes} bytes",
            smallest_bytes,
            time_s,
        )

    def _improve(self) -> None:
        """Search, then prove; where no schedule turns up, search on until the time is up."""
        limit_s = SEARCH_SHARE * self._options.time_limit_s

        def go_on() -> bool:
            early = self._search.incumbent is None or self._seconds() < limit_s
            return self._tell() and early and not self._proof.complete

        self._search.run(self._moves(min(limit_s, first_search_s(self._problem))), go_on)
        self._proof.exhaust(self._tell)
        while self._search.incumbent is None and self._seconds_left() > 0.5 * self._options.time_limit_s:
            self._search.run(self._moves(SEARCH_S), self._tell)
        if self._search.incumbent is not None and not self._proof.complete:
            self._proof.run(self._seconds_left, self._tell)
        while not self._proof.complete and self._seconds_left() > 0:
            self._search.run(self._moves(2 * SEARCH_S), self._tell)

    def _moves(self, seconds: float) -> int:
        return int(seconds * moves_per_second(self._problem))

    def _seconds(self) -> float:
        return time.monotonic() - self._started_s

    def _seconds_to_limit(self) -> float:
        return self._options.time_limit_s - self._seconds()

    def _seconds_left(self) -> float:
        """Until the schedule must be given addresses."""
        limit_s = self._options.time_limit_s
        return limit_s - min(PLACING_SHARE * limit_s, MOST_PLACING_S) - self._seconds()

    def _tell(self, note: str = "") -> bool:
        incumbent = self._search.incumbent
        self._remember(incumbent)
        if self._options.progress:
            energy_j = None if incumbent is None else incumbent.energy
            self._options.progress(Progress(self._seconds(), energy_j, self._proof.bound_j, note))
        return self._seconds_left() > 0

    def _remember(self, incumbent: Incumbent | None) -> None:
        """Keep what was the best; one that an annealer is about to overwrite may be torn, and then is no schedule."""
        problem = self._problem
        if incumbent is None or incumbent.peak > problem.budget or incumbent.time > problem.deadline * (1 + 1e-10):
            return
        if not self._trail or incumbent.energy < self._trail[-1].energy:
            self._trail.append(incumbent)

    def _placed(self, best: Incumbent) -> _Placed:
        """Addresses for the best schedule, or for one that costs little more and was the best before.

        Where they do not fit, for one planned again, within less.
        """
        excess = budget = self._problem.budget
        for attempt, candidate in enumerate([best, *self._little_worse(best)]):
            placed = self._addresses(self._problem, candidate, attempt)
            over = placed.placement.arena_bytes - budget
            if over <= 0:
                near = self._overhead_within(placed.incumbent, best, NEAR)
                return placed if near else self._planned_again(best, placed, excess)
            excess = min(excess, over)
        return self._planned_again(best, None, excess)

    def _planned_again(self, best: Incumbent, placed: _Placed | None, excess: int) -> _Placed:
        """Plan within less RAM as long as the arena is too large, and within more as long as that costs too much."""
        budget = self._problem.budget
        least = excess
        needed = int(node_need(self._problem).max(initial=0))
        tight = budget - (excess + 1) // 2
        again_least_s = AGAIN_SHARE * self._options.time_limit_s
        for attempt in range(1, MOST_ATTEMPTS):
            late = self._seconds_to_limit() < again_least_s
            if placed is not None and (late or self._overhead_within(placed.incumbent, best, NEAR)):
                break
            tight = max(needed, tight)
            self._tell(f"addresses take {budget + excess} of {budget} bytes; planning again in {tight}")
            planned = self._problem._replace(budget=tight)
            search = Search(planned, self._options.seed + attempt, _any_order(planned, attempt))
            if tight > needed:
                search.adopt(best.events)
            left_s = self._seconds_to_limit()
            again_s = max(left_s / 2.5, again_least_s)
            search.run(self._moves(SEARCH_S), self._within(again_s, search))
            if search.incumbent is None:
                tight = (tight + budget) // 2
                continue
            again = self._addresses(planned, search.incumbent, attempt)
            excess = again.placement.arena_bytes - budget
            least = min(least, excess)
            if excess > 0:
                tight -= excess
                continue
            tight = (tight + budget) // 2
            if placed is None or again.incumbent.energy < placed.incumbent.energy:
                placed = again
        if placed is None:
            raise self._no_addresses(self._ram_bytes + least, best.time)
        return placed

    def _overhead_within(self, one: Incumbent, best: Incumbent, share: float) -> bool:
        """Whether one's energy above plain training is larger than the best's by that share of it at most."""
        plain_j = float(self._problem.node_energy.sum())
        return one.energy <= best.energy + share * (best.energy - plain_j)

    def _addresses(self, planned: Problem, incumbent: Incumbent, attempt: int) -> _Placed:
        left_s = self._seconds_to_limit()
        search_s = min(ADDRESSES_S, left_s / 2) / (attempt + 1)
        decoded = decode(self._graph, planned, incumbent.events)
        return _Placed(incumbent, decoded, place(self._graph, decoded.steps, self._problem.budget, search_s))

    def _little_worse(self, best: Incumbent) -> list[Incumbent]:
        """What was the best schedule shortly before, the better first."""
        worse = [one for one in self._trail[::-1] if one.energy > best.energy]
        return [one for one in worse if self._overhead_within(one, best, LITTLE)][:MOST_CANDIDATES]

    def _within(self, seconds: float, search: Search) -> Callable[[], bool]:
        """Whether a search may go on: for so long, or until it has found anything."""
        end_s = self._seconds() + seconds
        return lambda: search.incumbent is None or self._seconds() < end_s

    def _finished(self, placed: _Placed) -> Schedule:
        incumbent, decoded, placement = placed.incumbent, placed.decoded, placed.placement
        bound_j = min(self._proof.bound_j, incumbent.energy)
        gap = (incumbent.energy - bound_j) / incumbent.energy if incumbent.energy > 0 else 0.0
        return Schedule(
            graph=self._graph.name,
            graph_hash=graph_hash(self._graph),
            ram_budget_bytes=self._ram_bytes,
            deadline_s=self._deadline_s,
            steps=placement.steps,
            energy_j=incumbent.energy,
            time_s=decoded.time_s,
            peak_bytes=decoded.peak + self._graph.resident_bytes,
            arena_bytes=placement.arena_bytes,
            status=Status.OPTIMAL if gap <= self._options.gap else Status.FEASIBLE,
            bound_j=bound_j,
            gap=gap,
        )


def first_search_s(problem: Problem) -> float:
    """Seconds of searching before the proof begins, where the time limit allows them."""
    return min(MOST_SEARCH_S, SEARCH_S_PER_NODE * len(problem.node_time))


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
