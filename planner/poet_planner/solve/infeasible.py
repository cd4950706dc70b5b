"""When there is no schedule: what would do."""

from __future__ import annotations

import time

import numpy as np

from poet_planner.graph import Graph
from poet_planner.solve.eviction import by_eviction
from poet_planner.solve.options import NoScheduleError
from poet_planner.solve.problem import WORD, Problem, node_need
from poet_planner.solve.search import Search, moves_per_second

MOST_TRY_S = 0.5
TRIES = 12
BRACKET = 1.01
PASSES = 32


def conceivable(problem: Problem) -> bool:
    """Whether each node fits by itself and plain training meets the deadline."""
    fits = node_need(problem).max(initial=0) <= problem.budget
    return bool(fits and problem.node_time.sum() <= problem.deadline)


def no_schedule(graph: Graph, problem: Problem, seed: int, seconds: float) -> NoScheduleError:
    """The error that says the smallest RAM and the shortest time that would do, as far as searching found them.

    Parameters
    ----------
    seconds : float
        About how long it may take.
    """
    try_s = max(0.05, seconds / TRIES)
    shortest_s = _shortest_time(problem, seed, try_s)
    in_time = problem if problem.node_time.sum() <= problem.deadline else problem._replace(deadline=np.inf)
    smallest = _smallest_ram(in_time, seed, try_s) + graph.resident_bytes
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


def _smallest_ram(problem: Problem, seed: int, try_s: float) -> int:
    """Bisect between what one node needs and what plain training needs, to `BRACKET`."""
    low = int(node_need(problem).max(initial=0))
    if _feasible(problem._replace(budget=low), seed, try_s):
        return low
    high = low
    while not _feasible(problem._replace(budget=high), seed, try_s):
        low, high = high, 2 * high + WORD
    while high > BRACKET * low:
        middle = (low + high) // 2
        if _feasible(problem._replace(budget=middle), seed, try_s):
            high = middle
        else:
            low = middle
        if high - low <= WORD:
            break
    return high


def _feasible(problem: Problem, seed: int, try_s: float) -> bool:
    return _evicts(problem, seed) or _finds(problem, seed, try_s)


def _evicts(problem: Problem, seed: int) -> bool:
    """Whether a pass of eviction gives a schedule that is in time."""
    made = by_eviction(problem, np.arange(len(problem.node_time)), np.random.default_rng(seed), PASSES)
    return any(one is not None and one.time <= problem.deadline for one in made)


def _finds(problem: Problem, seed: int, try_s: float) -> bool:
    end_s = time.monotonic() + try_s
    search = Search(problem, seed)
    search.run(
        int(MOST_TRY_S * moves_per_second(problem)), lambda: search.incumbent is None and time.monotonic() < end_s
    )
    return search.incumbent is not None


def _shortest_time(problem: Problem, seed: int, try_s: float) -> float:
    """Search with time in the place of energy; infinite if the RAM does not do at any time."""
    if node_need(problem).max(initial=0) > problem.budget:
        return np.inf
    timed = problem._replace(
        node_energy=problem.node_time,
        in_energy=problem.in_time,
        out_energy=problem.out_time,
        deadline=np.inf,
    )
    end_s = time.monotonic() + 2 * try_s
    search = Search(timed, seed)
    search.run(int(2 * MOST_TRY_S * moves_per_second(problem)), lambda: time.monotonic() < end_s)
    return np.inf if search.incumbent is None else search.incumbent.time
