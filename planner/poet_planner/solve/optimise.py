"""From a graph, a RAM budget and a deadline to a schedule with addresses and a bound."""

from __future__ import annotations

import time

from poet_profiles.errors import UserError

from poet_planner.graph import Graph
from poet_planner.graph_file import graph_hash
from poet_planner.schedule import Schedule, Status
from poet_planner.solve.arena import Placement, place
from poet_planner.solve.decode import steps_of
from poet_planner.solve.options import FORMULATIONS, NoScheduleError, OptimiseOptions, Progress
from poet_planner.solve.problem import Problem, build_problem, node_need
from poet_planner.solve.search import Incumbent, Search, moves_per_second

SEARCH_S = 1.5
TIGHTENINGS = 8


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
        If an option has no such value.
    KeyboardInterrupt
        If it comes before there is any schedule.
    """
    options = options or OptimiseOptions()
    if options.formulation not in FORMULATIONS:
        raise UserError(f"no formulation {options.formulation!r}; there are {', '.join(FORMULATIONS)}")
    return _Run(graph, ram_bytes, deadline_s, options).schedule()


class _Run:
    """One call of `optimise`."""

    def __init__(self, graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> None:
        self._graph = graph
        self._ram_bytes = ram_bytes
        self._deadline_s = deadline_s
        self._options = options
        self._started_s = time.monotonic()
        self._problem = build_problem(graph, ram_bytes, deadline_s, options.paging)
        self._search = Search(self._problem, options.seed)
        self._bound_j = float(self._problem.node_energy.sum())

    def schedule(self) -> Schedule:
        self._refuse_the_impossible()
        try:
            self._search.run(int(SEARCH_S * moves_per_second(self._problem)), self._go_on)
        except KeyboardInterrupt:
            if self._search.incumbent is None:
                raise
        incumbent = self._search.incumbent
        if incumbent is None:
            raise self._no_schedule()
        return self._finished(*self._placed(incumbent))

    def _seconds(self) -> float:
        return time.monotonic() - self._started_s

    def _go_on(self) -> bool:
        self._tell()
        return self._seconds() < self._options.time_limit_s

    def _tell(self, note: str = "") -> None:
        if self._options.progress:
            incumbent = self._search.incumbent
            energy_j = None if incumbent is None else incumbent.energy
            self._options.progress(Progress(self._seconds(), energy_j, self._bound_j, note))

    def _refuse_the_impossible(self) -> None:
        if node_need(self._problem).max(initial=0) > self._problem.budget:
            raise self._no_schedule()
        if self._problem.node_time.sum() > self._problem.deadline * (1 + 1e-9):
            raise self._no_schedule()

    def _no_schedule(self) -> NoScheduleError:
        smallest = int(node_need(self._problem).max(initial=0)) + self._graph.resident_bytes
        shortest_s = float(self._problem.node_time.sum())
        return NoScheduleError(
            f"no schedule: at least {smallest} bytes of RAM and {shortest_s:.6g} s are needed", smallest, shortest_s
        )

    def _placed(self, incumbent: Incumbent) -> tuple[Incumbent, Placement]:
        """Addresses for the incumbent; where they do not fit, for one planned again within less."""
        budget = self._problem.budget
        tight = budget
        for attempt in range(TIGHTENINGS):
            placement = place(self._graph, steps_of(self._graph, self._problem, incumbent.events), budget)
            if placement.arena_bytes <= budget:
                return incumbent, placement
            tight = max(int(node_need(self._problem).max()), tight - (placement.arena_bytes - budget))
            self._tell(f"the arena needs {placement.arena_bytes} bytes of {budget}; planning again within {tight}")
            search = Search(self._problem._replace(budget=tight), self._options.seed + 1 + attempt)
            search.run(int(SEARCH_S * moves_per_second(self._problem)))
            if search.incumbent is not None:
                incumbent = search.incumbent
        raise self._no_schedule()

    def _finished(self, incumbent: Incumbent, placement: Placement) -> Schedule:
        problem = self._problem
        energy_j, time_s, peak = incumbent.energy, *_time_and_peak(problem, incumbent)
        bound_j = min(self._bound_j, energy_j)
        gap = (energy_j - bound_j) / energy_j if energy_j > 0 else 0.0
        return Schedule(
            graph=self._graph.name,
            graph_hash=graph_hash(self._graph),
            ram_budget_bytes=self._ram_bytes,
            deadline_s=self._deadline_s,
            steps=placement.steps,
            energy_j=energy_j,
            time_s=time_s,
            peak_bytes=peak + self._graph.resident_bytes,
            arena_bytes=placement.arena_bytes,
            status=Status.OPTIMAL if gap <= self._options.gap else Status.FEASIBLE,
            bound_j=bound_j,
            gap=gap,
        )


def _time_and_peak(problem: Problem, incumbent: Incumbent) -> tuple[float, int]:
    from poet_planner.solve import annealing
    import numpy as np

    work = annealing.new_workspace(problem, np.ones(1, dtype=np.uint64))
    result = annealing.evaluate(problem, incumbent.events, len(incumbent.events), work)
    return float(result.time), int(work.memory[: result.length].max(initial=0))
