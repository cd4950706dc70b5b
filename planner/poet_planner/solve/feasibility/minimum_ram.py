# SPDX-License-Identifier: Apache-2.0
"""The smallest RAM that is enough, between a RAM proven infeasible and the peak of a schedule found.

See docs/optimiser/feasibility.md, "The smallest RAM".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned

from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.solve.feasibility.deadline import deadline_feasibility, quick_feasibility, with_time_as_energy
from poet_planner.solve.instance import WORD, Problem, busy_s, working_set_bytes
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.search.annealer import Annealer, moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.search.orders import frugal_order
from poet_planner.solve.starts import events_of
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import TimeBudget

CLOSE = 1.01  # within this factor the smallest RAM is known closely enough
QUESTION_SHARE = 0.5  # for one RAM: fraction of the work left
SHORTEST_S = 1.0  # effort for the shortest time within a RAM: seconds


@dataclass(frozen=True)
class Bracket:
    """Where the smallest RAM lies, in bytes without the resident tensors."""

    infeasible_bytes: int  # in this RAM there is no schedule
    schedule: Incumbent  # the schedule with the smallest peak that was found

    @property
    def feasible_bytes(self) -> int:
        """The peak of ``schedule``."""
        return self.schedule.peak


def bracket_minimum_ram(
    problem: Problem,
    seed: int,
    solver: Solver,
    budget: TimeBudget,
    context: Context | None = None,
    known: Incumbent | None = None,
) -> Bracket:
    """Bracket the smallest RAM in which there is a schedule within the deadline, whatever ``problem.budget``.

    The first RAM asked for is that of the largest working set, which often is enough. Then short searches bisect
    between the peak found and the largest RAM in which they find nothing. Below that, proofs are asked for. The
    store-all schedule has to meet the deadline, and so has ``known``, from which it begins if that takes less RAM. When
    the budget has expired, the bracket so far is returned.
    """
    context = context or Context()
    infeasible_bytes = max(0, int(working_set_bytes(problem).max(initial=0)) - WORD)
    frugal = _frugal(problem, seed, budget, context)
    least = known if known is not None and known.peak < frugal.peak else frugal
    bracket = Bracket(infeasible_bytes, least)
    not_found: set[int] = set()
    undecided: set[int] = set()
    ram = infeasible_bytes + WORD
    while not budget.expired:
        within = replace(problem, budget=ram)
        if ram > max({bracket.infeasible_bytes, *not_found}):
            result = quick_feasibility(within, seed, budget, context)
            not_found.add(ram)
        else:
            result = deadline_feasibility(within, bracket.schedule, seed, solver, budget.share(QUESTION_SHARE), context)
            undecided.add(ram)
        bracket = Bracket(ram if result.infeasible else bracket.infeasible_bytes, result.schedule or bracket.schedule)
        not_found = {ram for ram in not_found if ram < bracket.feasible_bytes}
        undecided = {ram for ram in undecided if bracket.infeasible_bytes < ram < bracket.feasible_bytes}
        low = max({bracket.infeasible_bytes, *not_found})
        high = min({bracket.feasible_bytes, *undecided})
        if not _close(low, bracket.feasible_bytes):
            ram = _middle(low, bracket.feasible_bytes)
        elif _close(bracket.infeasible_bytes, high):
            break
        elif undecided:
            ram = _middle(bracket.infeasible_bytes, high)
        else:
            ram = min(aligned(ceil(high / CLOSE)), high - WORD)
    return bracket


def _frugal(problem: Problem, seed: int, budget: TimeBudget, context: Context) -> Incumbent:
    """A store-all schedule that meets the deadline."""
    plain = store_all(problem)
    if not context.has(Component.ORDERS):
        return plain
    found = evaluated(problem, frugal_order(problem, seed, budget))
    return found if found is not None and found.time <= problem.deadline and found.peak < plain.peak else plain


def _middle(low: int, high: int) -> int:
    return (low + high) // 2 // WORD * WORD


def _close(infeasible_bytes: int, feasible_bytes: int) -> bool:
    return feasible_bytes <= max(CLOSE * infeasible_bytes, infeasible_bytes + WORD)


def store_all(problem: Problem) -> Incumbent:
    """The store-all schedule, whatever RAM it takes."""
    everywhere = replace(problem, budget=int(problem.size.sum() + problem.workspace.max(initial=0)))
    found = evaluated(everywhere, np.arange(len(problem.node_time), dtype=np.int64))
    assert found is not None
    return found


def page_all(graph: Graph, problem: Problem) -> Incumbent | None:
    """The page-all schedule, whatever RAM it takes; None where nothing may be paged, or it is late."""
    if not problem.pageable.any():
        return None
    found = evaluated(problem, events_of(graph, page_all_schedule(graph)), Component.FEASIBILITY)
    return found if found is not None and found.time <= problem.deadline else None


def passes_necessary_conditions(problem: Problem) -> bool:
    """Whether every working set fits in the RAM, and every node can be computed once within the deadline."""
    fits = working_set_bytes(problem).max(initial=0) <= problem.budget
    return bool(fits and busy_s(problem) <= problem.deadline)


def fastest_schedule(problem: Problem, seed: int, budget: TimeBudget) -> Incumbent | None:
    """The fastest schedule within the RAM that a short search finds, late or not; None if it finds none."""
    if working_set_bytes(problem).max(initial=0) > problem.budget:
        return None
    search = Annealer(with_time_as_energy(problem), seed)
    search.run(int(SHORTEST_S * moves_per_second(problem)), budget)
    return search.incumbent
