# SPDX-License-Identifier: Apache-2.0
"""Schedules from Algorithm 1 of the POET paper (ICML 2022), for comparison: solved again where the paper is too loose.

Its solution may exceed the budget where the paper is looser than the schedule semantics:
benchmarks/evaluation/methods.md lists how. `algorithm_1` states it in arrays, `algorithm_1_pyomo` in Pyomo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn, Protocol

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods import algorithm_1, algorithm_1_pyomo
from poet_planner.comparison.methods.in_place import remade
from poet_planner.comparison.methods.limits import refuse_time
from poet_planner.comparison.methods.stages import Answer, Solution
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions, Progress
from poet_planner.solve.feasibility.least_ram import what_would_do
from poet_planner.solve.feasibility.minimum_ram import passes_necessary_conditions
from poet_planner.solve.feasibility.refusal import certain_refusal, known_of, no_schedule
from poet_planner.solve.instance import WORD, Ints, Problem, build_problem
from poet_planner.solve.milp.solvers import Solver, SolverStatus, solver_named
from poet_planner.solve.optimise import schedule_of
from poet_planner.solve.options import NoScheduleError, Refused
from poet_planner.solve.placement.allocated import allocated
from poet_planner.solve.placement.assign import PlacedSchedule
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.search.incumbent import Incumbent, evaluated, keeps_limits
from poet_planner.solve.time_budget import TimeBudget

# For offsets: of the time limit, and no more seconds than these.
PLACING_SHARE = 0.25
MOST_PLACING_S = 8.0
# As often it is solved again with tighter limits, where what it finds breaks them.
MOST_ROUNDS = 8


class Stated(Protocol):
    """Algorithm 1 for a problem, as arrays or in Pyomo."""

    def solved(self, solver: Solver, budget: TimeBudget) -> Answer:
        """What a solver finds."""


def schedule(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    name: str = "Algorithm 1",
    by_time: bool = False,
    state: Callable[[Problem, str], Stated] = algorithm_1.stated,
    told: Callable[[Answer], object] = lambda _answer: None,
) -> Schedule:
    """A schedule from Algorithm 1: where what it finds breaks a limit, it is solved again with a tighter one.

    Its bound is the energy of the store-all schedule: what the solver proves of Algorithm 1 says nothing about
    schedules that Algorithm 1 does not know.

    Parameters
    ----------
    ram_bytes : int
        All of the RAM, resident tensors included.
    deadline_s : float or None
        None: no deadline.
    options : OptimiseOptions
        ``seed`` counts for the offsets alone. Without ``paging`` this is Checkmate's MILP.
    name : str
        In messages.
    by_time : bool
        Whether the least time is looked for, and not the least energy.
    state : callable
        States it for a problem, with the method's name for messages. That is no part of the time limit.
    told : callable
        Is called with each answer of the solver. The bound of the first one is of Algorithm 1 within the limits.

    Raises
    ------
    NoScheduleError
        If some node does not fit by itself, the store-all schedule is late, or no schedule is known.
    UserError
        If it has none or finds none in the time, the solver fails, or there is no such solver.
    """
    refuse_time(options)
    problem, solver = build_problem(graph, ram_bytes, deadline_s, options.paging), solver_named(options.solver)
    store_all_j = float(problem.node_energy.sum())
    started_s = options.clock()
    limit = TimeBudget(options.time_limit_s, options.clock)
    placing_s = min(MOST_PLACING_S, PLACING_SHARE * options.time_limit_s)

    def tell(note: str = "") -> None:
        if options.progress:
            options.progress(Progress(options.clock() - started_s, None, store_all_j, note))

    # Until the schedule must be given offsets.
    budget = limit.keeping(lambda: placing_s).noting(tell)

    def refuse() -> NoReturn:
        certain = certain_refusal(known_of(graph, problem))
        tell(f"{certain}; looking for what would do" if certain else "looking for what would do")
        known, found = what_would_do(graph, problem, options.seed, solver, options.time_limit_s)
        lack = no_schedule(known)
        if found is None and lack.status is Refused.IMPOSSIBLE:
            raise lack
        which = "" if found is None else ", which has"
        raise NoScheduleError(f"{name} has no schedule within the limits; plan with --method optimal{which}")

    if not passes_necessary_conditions(problem):
        refuse()
    asked, last = problem, ""
    if by_time:
        asked = replace(asked, node_energy=problem.node_time)
    for _ in range(MOST_ROUNDS):
        with limit.paused():
            stated = state(asked, name)
        answer = stated.solved(solver, budget)
        told(answer)
        if answer.status.has_no_solution and not last:
            refuse()
        if answer.solution is None:
            break
        found = evaluated(problem, events_of_paper(problem, answer.solution))
        if found is None:
            last = "is none here"
            break
        needed = found.peak
        if keeps_limits(problem, found):
            placed = _placed(graph, problem, found, limit.share(1.0, placing_s), options.seed)
            needed = placed.placement.arena_bytes
            if needed <= problem.budget:
                return schedule_of(graph, ram_bytes, deadline_s, placed, store_all_j, options.gap)
        last = f"needs {needed + graph.resident_bytes} bytes and {found.time:.6g} s"
        asked = _tighter(asked, needed - problem.budget, found.time - problem.deadline, answer.solution)
        if asked.budget <= 0:
            break
    if not last or (answer.status is SolverStatus.TIME_LIMIT and answer.solution is None):
        raise NoScheduleError(
            f"{name}: {solver.name} found no schedule in {options.time_limit_s:g} s; raise --time-limit, or plan "
            "with --method optimal",
            Refused.NOT_FOUND,
        )
    raise NoScheduleError(
        f"{name} has no schedule within the limits: the last that it found {last}; plan with --method optimal"
    )


def _tighter(asked: Problem, lacking: int, late_s: float, solution: Solution) -> Problem:
    """The next limits to ask for, which a schedule does not keep that takes so much more than there is."""
    if lacking <= 0:
        return replace(asked, deadline=asked.deadline - late_s) if late_s > 0 else asked
    own = round(asked.budget * solution.most_ram)
    return replace(asked, budget=min(asked.budget - lacking, (own - 1) // WORD * WORD))


METHOD = Method(
    name="poet_ilp",
    source="Patil et al. 2022, POET, Algorithm 1",
    decides="what to keep, recompute and page in each stage, as printed (MILP)",
    schedule=schedule,
    recomputes=True,
    pages=True,
    keeps_deadline=True,
    takes=(Option.SEED, Option.SOLVER, Option.TIME_LIMIT),
    general=Aware.YES,
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
    power_aware=Aware.YES,
)


PAPER = replace(
    METHOD,
    name="paper",
    decides="as poet_ilp, stated in Pyomo: for small graphs",
    schedule=partial(schedule, state=algorithm_1_pyomo.stated),
)


def _placed(graph: Graph, problem: Problem, found: Incumbent, budget: TimeBudget, seed: int) -> PlacedSchedule:
    """Steps with offsets, whether these are within the budget or not."""
    made = allocated(graph, problem, found)
    if graph.allocates:
        return made
    return replace(made, placement=place(graph, made.decoded.steps, problem.budget, budget, seed=seed))


def events_of_paper(problem: Problem, solution: Solution) -> Ints:
    """What a solution computes and pages in, as events (see `evaluation`) in the order of Algorithm 2."""
    n = len(problem.node_time)
    events: list[int] = []
    for t in range(n):
        events += np.flatnonzero(solution.computed[t]).tolist()
        # A page-in of stage t is there from stage t + 1 on.
        events += [
            n + v
            for i in np.flatnonzero(solution.fetched[t])
            for v in range(problem.output_start[i], problem.output_start[i + 1])
            if problem.pageable[v]
        ]
    return np.array(remade(problem, events), dtype=np.int64)
