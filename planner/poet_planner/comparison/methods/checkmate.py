# SPDX-License-Identifier: Apache-2.0
"""Jain et al. 2020, Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization (MLSys 2020).

Its MILP (section 4) is Algorithm 1 of POET without paging: R, S, FREE and U in stages, in the graph's order. Its
approximation (section 5, two-phase rounding) solves the LP relaxation, keeps each value whose S reaches a threshold,
and computes what that makes necessary. As in the public code, the LP gets 0.9 of the budget, so that what is rounded
may fit; of nine thresholds the best that fits counts. Both minimise time, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods import algorithm_1, poet_ilp
from poet_planner.comparison.methods.instance import Events, Instance, out_of_time
from poet_planner.comparison.methods.stages import RELATIVE_GAP, Answer
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.instance import Flags, Floats, Problem
from poet_planner.solve.milp.linear_model import SCALE
from poet_planner.solve.milp.solvers import Solver, SolverStatus, solver_named
from poet_planner.solve.time_budget import TimeBudget

LP_SHARE = 0.9  # of the budget, for the LP
THRESHOLDS = np.arange(1, 10) / 10


def schedule(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    told: Callable[[Answer], object] = lambda _answer: None,
) -> Schedule:
    """The best schedule of Checkmate's MILP; ``told``, and what it raises: `poet_ilp.schedule`."""
    without_paging = replace(options, paging=False)
    return poet_ilp.schedule(graph, ram_bytes, deadline_s, without_paging, "Checkmate's MILP", by_time=True, told=told)


def schedule_rounded(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    told: Callable[[Answer], object] = lambda _answer: None,
) -> Schedule:
    """The best schedule from rounding Checkmate's LP; ``told`` of how the LP ended.

    Raises
    ------
    UserError
        If none fits, or the LP is not solved in the time allowed.
    """
    instance = Instance(graph, ram_bytes, deadline_s, replace(options, paging=False))
    return instance.cheapest("Checkmate's LP rounding", rounded_orders(instance, told))


MILP = Method(
    name="checkmate",
    source="Jain et al. 2020, MLSys, section 4",
    decides="what to keep and recompute in each stage (MILP)",
    schedule=schedule,
    recomputes=True,
    keeps_deadline=True,
    takes=(Option.SEED, Option.SOLVER, Option.TIME_LIMIT),
    general=Aware.YES,
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
)
ROUNDED = replace(
    MILP,
    name="checkmate_lp",
    source="Jain et al. 2020, MLSys, section 5",
    decides="as checkmate: its LP, rounded",
    schedule=schedule_rounded,
    keeps_deadline=False,
    takes=(Option.SOLVER, Option.TIME_LIMIT),
)


@dataclass(frozen=True)
class Relaxed:
    """How the LP ended, its S, stage by value's node (n, n), and its optimum in seconds: no schedule takes less."""

    status: SolverStatus
    kept: Floats | None
    bound_s: float


def relaxed(problem: Problem, budget: int, solver: Solver, time_left: TimeBudget) -> Relaxed:
    """The LP relaxation within so many bytes."""
    without_paging = np.zeros_like(problem.pageable)
    timed = replace(problem, node_energy=problem.node_time, pageable=without_paging, budget=budget)
    with time_left.paused():
        stages = algorithm_1.stated(timed, "Checkmate's LP", whole=False)
    result = solver.solve_arrays(stages.model, time_left, SCALE * RELATIVE_GAP)
    if result.status is not SolverStatus.OPTIMAL:
        return Relaxed(result.status, None, -np.inf)
    return Relaxed(result.status, stages.of("S", result.solutions[-1]), result.bound * stages.unit_j)


def order(instance: Instance, kept: Flags) -> list[int]:
    """The fewest computes of each stage that make what is ``kept`` (n, n): the second phase."""
    n = instance.nodes
    events: list[int] = []
    for stage in range(n):
        computed = np.zeros(n, dtype=np.bool_)
        computed[stage] = True
        if stage + 1 < n:
            computed |= kept[stage + 1] & ~kept[stage]
        for node in range(stage, -1, -1):
            if computed[node]:
                above = [instance.producer[v] for v in instance.inputs[node]]
                computed[[other for other in above if not kept[stage, other]]] = True
        events += np.nonzero(computed)[0].tolist()
    return events


def rounded_orders(instance: Instance, told: Callable[[Answer], object] = lambda _answer: None) -> Iterator[Events]:
    """Of each threshold; none if the LP has no solution."""
    solver = solver_named(instance.options.solver)
    found = relaxed(instance.problem, int(LP_SHARE * instance.budget), solver, instance.time_left)
    told(Answer(found.status, None, found.bound_s))
    if found.kept is None:
        if not found.status.has_no_solution:
            raise out_of_time("Checkmate's LP rounding")
        return
    for threshold in THRESHOLDS:
        yield order(instance, found.kept >= threshold)
