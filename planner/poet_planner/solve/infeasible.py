"""When there is no schedule: what would do."""

from __future__ import annotations

import numpy as np

from poet_planner.graph import Graph
from poet_planner.solve.options import NoScheduleError
from poet_planner.solve.problem import Problem, node_need
from poet_planner.solve.search import Search, moves_per_second

TRY_S = 0.5
BRACKET = 1.01


def conceivable(problem: Problem) -> bool:
    """Whether each node fits by itself and plain training meets the deadline."""
    fits = node_need(problem).max(initial=0) <= problem.budget
    return bool(fits and problem.node_time.sum() <= problem.deadline * (1 + 1e-9))


def no_schedule(graph: Graph, problem: Problem, seed: int) -> NoScheduleError:
    """The error that says the smallest RAM and the shortest time that would do, as far as searching found them."""
    shortest_s = _shortest_time(problem, seed)
    in_time = problem if problem.node_time.sum() <= problem.deadline else problem._replace(deadline=np.inf)
    smallest = _smallest_ram(in_time, seed) + graph.resident_bytes
    ram = problem.budget + graph.resident_bytes
    deadline = "no deadline" if np.isinf(problem.deadline) else f"a deadline of {problem.deadline:.6g} s"
    shortest = f"; within {ram} bytes the shortest time is {shortest_s:.6g} s" if np.isfinite(shortest_s) else ""
    within = "" if np.isinf(in_time.deadline) else " within the deadline"
    return NoScheduleError(
        f"no schedule fits {ram} bytes of RAM with {deadline}: "
        f"the smallest RAM that does{within} is {smallest} bytes{shortest}",
        smallest,
        shortest_s,
    )


def _smallest_ram(problem: Problem, seed: int) -> int:
    """Bisect between what one node needs and what plain training needs, to `BRACKET`."""
    low = int(node_need(problem).max(initial=0))
    if _feasible(problem._replace(budget=low), seed):
        return low
    high = low
    while not _feasible(problem._replace(budget=high), seed):
        low, high = high, 2 * high
    while high > BRACKET * low:
        middle = (low + high) // 2
        if _feasible(problem._replace(budget=middle), seed):
            high = middle
        else:
            low = middle
    return high


def _feasible(problem: Problem, seed: int) -> bool:
    search = Search(problem, seed)
    search.run(int(TRY_S * moves_per_second(problem)), lambda: search.incumbent is None)
    return search.incumbent is not None


def _shortest_time(problem: Problem, seed: int) -> float:
    """Search with time in the place of energy; infinite if the RAM does not do at any time."""
    if node_need(problem).max(initial=0) > problem.budget:
        return np.inf
    timed = problem._replace(
        node_energy=problem.node_time,
        in_energy=problem.in_time,
        out_energy=problem.out_time,
        deadline=np.inf,
    )
    search = Search(timed, seed)
    search.run(int(2 * TRY_S * moves_per_second(problem)))
    return np.inf if search.incumbent is None else search.incumbent.time
