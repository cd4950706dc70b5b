# SPDX-License-Identifier: Apache-2.0
"""When there is no schedule: what would do."""

from __future__ import annotations

import numpy as np

from poet_planner.graph import Graph
from poet_planner.solve import clock
from poet_planner.solve.in_time import timed
from poet_planner.solve.options import NoScheduleError
from poet_planner.solve.problem import Problem, node_need
from poet_planner.solve.search import Search, moves_per_second
from poet_planner.solve.smallest_ram import Bracket

SHORTEST_S = 1.0


def conceivable(problem: Problem) -> bool:
    """Whether each node fits by itself and plain training meets the deadline."""
    fits = node_need(problem).max(initial=0) <= problem.budget
    return bool(fits and problem.node_time.sum() <= problem.deadline)


def fits_in_time(problem: Problem) -> Problem:
    """``problem``, without its deadline where plain training is late."""
    return problem if problem.node_time.sum() <= problem.deadline else problem._replace(deadline=np.inf)


def no_schedule(graph: Graph, problem: Problem, bracket: Bracket, seed: int) -> NoScheduleError:
    """The error that says the smallest RAM and the shortest time that would do, as far as they are known.

    Parameters
    ----------
    bracket : Bracket
        Of the RAM that `fits_in_time` needs.
    """
    shortest_s = _shortest_time(problem, seed)
    ram, enough, too_few = (graph.resident_bytes + it for it in (problem.budget, bracket.enough, bracket.too_few))
    none = "no schedule fits" if problem.budget <= bracket.too_few or not conceivable(problem) else "none was found in"
    deadline = "no deadline" if np.isinf(problem.deadline) else f"a deadline of {problem.deadline:.6g} s"
    within = "" if np.isinf(fits_in_time(problem).deadline) else " within the deadline"
    smallest = f"the smallest RAM that does{within} is {enough} bytes"
    if not bracket.is_close:
        smallest = f"{enough} bytes do{within}, {too_few} do not, what lies between is not known (raise --time-limit)"
    shortest = f"; within {ram} bytes the shortest time is {shortest_s:.6g} s" if np.isfinite(shortest_s) else ""
    return NoScheduleError(f"{none} {ram} bytes of RAM with {deadline}: {smallest}{shortest}", enough, shortest_s)


def _shortest_time(problem: Problem, seed: int) -> float:
    """Search with time in the place of energy; infinite if the RAM does not do at any time."""
    if node_need(problem).max(initial=0) > problem.budget:
        return np.inf
    end_s = clock.seconds() + SHORTEST_S
    search = Search(timed(problem), seed)
    search.run(int(SHORTEST_S * moves_per_second(problem)), lambda: clock.seconds() < end_s)
    return np.inf if search.incumbent is None else search.incumbent.time
