# SPDX-License-Identifier: Apache-2.0
"""The smallest RAM that does: found, and less of it refuted, until both are close."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned

from poet_planner.solve.feasibility.deadline import in_time, soon_in_time, timed
from poet_planner.solve.instance import WORD, Problem, node_need
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.options import NoScheduleError
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, measured
from poet_planner.solve.statistics import Context
from poet_planner.solve.time_budget import TimeBudget

CLOSE = 1.01  # within this factor the smallest RAM is known closely enough
SHORTEST_S = 1.0  # effort, and time, for the shortest time within a RAM: seconds


@dataclass(frozen=True)
class Bracket:
    """Where the smallest RAM lies, in bytes beside the resident tensors.

    Attributes
    ----------
    too_few : int
        With so many there is no schedule.
    found : Incumbent
        A schedule with the least peak of all that were found.
    """

    too_few: int
    found: Incumbent

    @property
    def enough(self) -> int:
        return self.found.peak

    @property
    def is_close(self) -> bool:
        """To 1 %, or exactly."""
        return _close(self.too_few, self.enough)


def smallest_ram(
    problem: Problem,
    refuted: int,
    seed: int,
    solver: Solver,
    budget: TimeBudget,
    context: Context | None = None,
) -> Bracket:
    """Bracket the smallest RAM in which there is a schedule within the deadline, whatever ``problem.budget``.

    What the hungriest node takes by itself is asked first, for it often does. Then short searches bisect between what
    was found and where they find nothing, and proofs do from there down.

    Parameters
    ----------
    problem : Problem
        Plain training keeps its deadline.
    refuted : int
        With so many bytes there is none, that is known.
    budget : TimeBudget
        When it has expired, the bracket so far is the answer.
    context : Context or None
        As in `Annealer`.
    """
    context = context or Context()
    too_few = max(refuted, int(node_need(problem).max(initial=0)) - WORD)
    bracket = Bracket(too_few, plain(problem))
    missed: set[int] = set()
    undecided: set[int] = set()
    asked = too_few + WORD
    while not budget.expired:
        within = problem._replace(budget=asked)
        if asked > max({bracket.too_few, *missed}):
            answer = soon_in_time(within, seed, budget, context)
            missed.add(asked)
        else:
            answer = in_time(
                within, bracket.found, seed, solver, budget.share(context.params.feasibility.question_share), context
            )
            undecided.add(asked)
        bracket = Bracket(asked if answer.impossible else bracket.too_few, answer.found or bracket.found)
        missed = {ram for ram in missed if ram < bracket.enough}
        undecided = {ram for ram in undecided if bracket.too_few < ram < bracket.enough}
        low, high = max({bracket.too_few, *missed}), min({bracket.enough, *undecided})
        if not _close(low, bracket.enough):
            asked = _middle(low, bracket.enough)
        elif _close(bracket.too_few, high):
            break
        elif undecided:
            asked = _middle(bracket.too_few, high)
        else:
            asked = min(aligned(ceil(high / CLOSE)), high - WORD)
    return bracket


def _middle(low: int, high: int) -> int:
    return (low + high) // 2 // WORD * WORD


def _close(too_few: int, enough: int) -> bool:
    return enough <= max(CLOSE * too_few, too_few + WORD)


def plain(problem: Problem) -> Incumbent:
    """Plain training, whatever RAM it takes."""
    everywhere = problem._replace(budget=int(problem.size.sum() + problem.workspace.max(initial=0)))
    found = measured(everywhere, np.arange(len(problem.node_time), dtype=np.int64))
    assert found is not None
    return found


def conceivable(problem: Problem) -> bool:
    """Whether each node fits by itself and plain training meets the deadline."""
    fits = node_need(problem).max(initial=0) <= problem.budget
    return bool(fits and problem.node_time.sum() <= problem.deadline)


def fits_in_time(problem: Problem) -> Problem:
    """``problem``, without its deadline where plain training is late."""
    return problem if problem.node_time.sum() <= problem.deadline else problem._replace(deadline=np.inf)


def no_schedule(graph: Graph, problem: Problem, bracket: Bracket, seed: int, budget: TimeBudget) -> NoScheduleError:
    """The error that says the smallest RAM and the shortest time that would do, as far as they are known.

    Parameters
    ----------
    bracket : Bracket
        Of the RAM that `fits_in_time` needs.
    budget : TimeBudget
        For the shortest time.
    """
    shortest_s = _shortest_time(problem, seed, budget.share(1.0, SHORTEST_S))
    ram, enough, too_few = (graph.resident_bytes + it for it in (problem.budget, bracket.enough, bracket.too_few))
    none = "no schedule fits" if problem.budget <= bracket.too_few or not conceivable(problem) else "none was found in"
    deadline = "no deadline" if np.isinf(problem.deadline) else f"a deadline of {problem.deadline:.6g} s"
    within = "" if np.isinf(fits_in_time(problem).deadline) else " within the deadline"
    smallest = f"the smallest RAM that does{within} is {enough} bytes"
    if not bracket.is_close:
        smallest = f"{enough} bytes do{within}, {too_few} do not, what lies between is not known (raise --time-limit)"
    shortest = f"; within {ram} bytes the shortest time is {shortest_s:.6g} s" if np.isfinite(shortest_s) else ""
    return NoScheduleError(f"{none} {ram} bytes of RAM with {deadline}: {smallest}{shortest}", enough, shortest_s)


def _shortest_time(problem: Problem, seed: int, budget: TimeBudget) -> float:
    """Search with time in the place of energy; infinite if the RAM does not do at any time."""
    if node_need(problem).max(initial=0) > problem.budget:
        return np.inf
    search = Annealer(timed(problem), seed)
    search.run(int(SHORTEST_S * moves_per_second(problem)), budget)
    return np.inf if search.incumbent is None else search.incumbent.time
