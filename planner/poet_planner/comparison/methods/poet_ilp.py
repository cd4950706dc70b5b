# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 of the POET paper (ICML 2022) as printed but for its deadline, in Pyomo, for comparison.

Its memory accounting U is that of Checkmate (Jain et al. 2020, equations 2 and 3), as the paper says. Its solution may
exceed the budget where the paper is looser than the schedule semantics: benchmarks/evaluation/methods.md lists how. The
printed deadline leaves page transfers out, so that what is paged makes a schedule late; here they count.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.in_place import remade
from poet_planner.comparison.methods.limits import refuse_time
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions, Progress
from poet_planner.solve.feasibility.least_ram import what_would_do
from poet_planner.solve.feasibility.minimum_ram import passes_necessary_conditions
from poet_planner.solve.feasibility.refusal import certain_refusal, known_of, no_schedule
from poet_planner.solve.instance import WORD, Flags, Floats, Ints, Problem, build_problem, dearest_page_j, energy_unit_j
from poet_planner.solve.milp.solvers import SolverStatus, solver_named
from poet_planner.solve.optimise import schedule_of
from poet_planner.solve.options import NoScheduleError, Refused
from poet_planner.solve.placement.allocated import allocated
from poet_planner.solve.placement.assign import PlacedSchedule
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.search.incumbent import Incumbent, evaluated, keeps_limits
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget
from poet_planner.solve.topology import producers

if TYPE_CHECKING:
    import pyomo.environ as pyo

SCALE = 1e4
RELATIVE_GAP = 1e-6
# For offsets: of the time limit, and no more seconds than these.
PLACING_SHARE = 0.25
MOST_PLACING_S = 8.0
# Stages by nodes are the model's variables, several times over; beyond, stating it takes minutes and gigabytes.
MOST_NODES = 400
# What a solver takes to be given the model, in times that it takes to state it.
READING = 1.5
# The time for all is foreseen once so much of the time is spent, or so many of the stages are stated.
SURE_TIME = 0.1
SURE_STAGES = 0.3
# As often it is solved again with tighter limits, where what it finds breaks them.
MOST_ROUNDS = 8
VARIABLES = ("R", "S_ram", "S_aux", "M_in", "M_out", "U")  # by stage and node, as the paper names them


def load_pyomo() -> None:
    """Import it before any time counts: the first time that takes a second."""
    import pyomo.environ  # noqa: F401


def algorithm_1(problem: Problem, time_left: TimeBudget = UNLIMITED) -> pyo.ConcreteModel:
    """The MILP over stages 0..n-1: R, S_RAM, S_AUX, M_in, M_out, FREE and U.

    A node stands for all of its values: the paper knows one value a node.

    Raises
    ------
    UserError
        As soon as it shows that the model cannot be stated, and handed to a solver, in the time left.
    """
    import pyomo.environ as pyo

    stating = _Stating(len(problem.node_time), time_left)
    n, budget = len(problem.node_time), problem.budget
    size, page = _node_sizes(problem), _node_pages(problem)
    inputs = [producers(problem, j).tolist() for j in range(n)]
    users = [[j for j in range(n) if i in inputs[j]] for i in range(n)]
    unit = energy_unit_j(float(problem.node_energy.sum()), dearest_page_j(problem)) / SCALE

    model = pyo.ConcreteModel()
    stages = range(n)
    free = [[(t, i, k) for k in range(t + 1) for i in (*inputs[k], k)] for t in stages]
    all_free = list(chain.from_iterable(free))
    variables = len(VARIABLES) * n * n + len(all_free)
    for number, variable in enumerate(VARIABLES, 1):
        domain, bounds = (pyo.Reals, (0, 1)) if variable == "U" else (pyo.Binary, None)
        model.add_component(variable, pyo.Var(stages, stages, domain=domain, bounds=bounds))
        stating.has_variables(number * n * n / variables)
    model.FREE = pyo.Var(all_free, domain=pyo.Binary)
    stating.has_variables(1.0)
    model.rows = pyo.ConstraintList()
    add = model.rows.add
    for t in stages:
        model.R[t, t].fix(1)
        for i in range(n):
            if i > t:
                for of in (model.R, model.S_ram, model.S_aux, model.M_in, model.M_out):
                    of[t, i].fix(0)
            if not problem.recomputable[i] and i < t:
                model.R[t, i].fix(0)
            if page[i] is None:
                model.M_in[t, i].fix(0)
                model.M_out[t, i].fix(0)
        for j in range(t + 1):
            for i in inputs[j]:
                add(model.R[t, i] + model.S_ram[t, i] >= model.R[t, j])
        for i in range(t + 1):
            if t == 0:
                model.S_ram[0, i].fix(0)
                model.S_aux[0, i].fix(0)
            else:
                add(model.R[t - 1, i] + model.S_ram[t - 1, i] + model.M_in[t - 1, i] >= model.S_ram[t, i])
                add(model.S_aux[t - 1, i] + model.M_out[t - 1, i] >= model.S_aux[t, i])
            add(model.S_aux[t, i] >= model.M_in[t, i])
            add(model.S_ram[t, i] >= model.M_out[t, i])
        for _, i, k in free[t]:
            # Checkmate's equation 3, linear: freed after k in stage t iff k runs, i is not kept, no later user runs.
            later = [model.R[t, j] for j in users[i] if k < j <= t]
            blockers = [1 - model.R[t, k], *([model.S_ram[t + 1, i]] if t + 1 < n else []), *later]
            for blocker in blockers:
                add(model.FREE[t, i, k] <= 1 - blocker)
            add(model.FREE[t, i, k] >= 1 - sum(blockers))
        held = sum(float(size[i]) / budget * model.S_ram[t, i] for i in range(t + 1))
        add(model.U[t, 0] == held + float(size[0]) / budget * model.R[t, 0])
        for k in range(t):
            freed = sum(float(size[i]) / budget * model.FREE[t, i, k] for i in (*inputs[k], k))
            add(model.U[t, k + 1] == model.U[t, k] - freed + float(size[k + 1]) / budget * model.R[t, k + 1])
        stating.has_stages(t + 1)
    _add_deadline(problem, model)
    model.energy = pyo.Objective(
        expr=sum(
            float(problem.node_energy[i]) / unit * model.R[t, i]
            + (page[i] or (0.0, 0.0))[0] / unit * model.M_in[t, i]
            + (page[i] or (0.0, 0.0))[1] / unit * model.M_out[t, i]
            for t in stages
            for i in range(t + 1)
        )
    )
    return model


def _add_deadline(problem: Problem, model: pyo.ConcreteModel) -> None:
    """D, what each stage takes: all its times; with DMA its computes, or its transfers if they take longer."""
    import pyomo.environ as pyo

    if not np.isfinite(problem.deadline):
        return
    n = len(problem.node_time)
    # In deadlines: solvers' tolerances are absolute.
    node, fetch, store = (time / problem.deadline for time in (problem.node_time, *_transfer_times(problem)))

    def computes(t: int, counted: Flags) -> pyo.Expression:
        return pyo.quicksum(float(node[i]) * model.R[t, i] for i in range(t + 1) if counted[i])

    def transfers(t: int) -> pyo.Expression:
        return pyo.quicksum(
            float(fetch[i]) * model.M_in[t, i] + float(store[i]) * model.M_out[t, i] for i in range(t + 1)
        )

    model.D = pyo.Var(range(n), bounds=(0, None))
    for t in range(n):
        if problem.dma:
            model.rows.add(model.D[t] >= computes(t, problem.uses_cpu))
            model.rows.add(model.D[t] >= computes(t, problem.uses_bus) + transfers(t))
        else:
            model.rows.add(model.D[t] >= computes(t, np.ones(n, dtype=np.bool_)) + transfers(t))
    model.rows.add(pyo.quicksum(model.D[t] for t in range(n)) <= 1.0)


class _Stating:
    """Foresees from what is stated how long the rest takes, and the solver's reading of it all."""

    def __init__(self, stages: int, time_left: TimeBudget) -> None:
        self._stages = stages
        self._time_left = time_left
        self._allowed_s = time_left.left()
        self._variables_s = 0.0

    def has_variables(self, share: float) -> None:
        """Refuse to go on if the variables alone take too long; so much of them is there."""
        spent_s = self._spent_s()
        self._variables_s = spent_s / share
        if spent_s > SURE_TIME * self._allowed_s:
            self._refuse(self._variables_s)

    def has_stages(self, stated: int) -> None:
        """Refuse to go on if the rows will take too long. Stage t has t times as many as the first."""
        spent_s = self._spent_s()
        if stated >= SURE_STAGES * self._stages and spent_s > SURE_TIME * self._allowed_s:
            rows_s = spent_s - self._variables_s
            self._refuse(self._variables_s + rows_s * (self._stages / stated) ** 2)

    def _spent_s(self) -> float:
        return 0.0 if self._allowed_s == math.inf else self._allowed_s - self._time_left.left()

    def _refuse(self, stating_s: float) -> None:
        needed_s = (1 + READING) * stating_s
        if needed_s > self._allowed_s:
            raise NoScheduleError(
                f"Building the MILP for {self._stages} nodes takes {needed_s:.2g} s or more; "
                f"{max(0.0, self._allowed_s):.2g} s are left: raise --time-limit, or use another method",
                Refused.NOT_RUN,
            )


def refuse_too_many(graph: Graph, name: str) -> None:
    """Refuse a graph of more nodes than the model can be stated for.

    Raises
    ------
    UserError
        If it has.
    """
    if len(graph.nodes) > MOST_NODES:
        raise NoScheduleError(
            f"{name} has a variable for each of {len(graph.nodes)} nodes in as many stages, too many to state: "
            f"it plans up to {MOST_NODES} nodes; use another method",
            Refused.NOT_RUN,
        )


def schedule(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    name: str = "Algorithm 1 as printed",
    by_time: bool = False,
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

    Raises
    ------
    NoScheduleError
        If some node does not fit by itself, the store-all schedule is late, or no schedule is known.
    UserError
        If it has none or finds none in the time, the solver fails, or there is no such solver.
    """
    refuse_time(options)
    refuse_too_many(graph, name)
    problem, solver = build_problem(graph, ram_bytes, deadline_s, options.paging), solver_named(options.solver)
    store_all_j = float(problem.node_energy.sum())
    load_pyomo()
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
        result = solver.solve(algorithm_1(asked, budget), budget, SCALE * RELATIVE_GAP)
        if result.status.has_no_solution and not last:
            refuse()
        if not result.solutions:
            break
        found = evaluated(problem, events_of_paper(problem, result.solutions[-1]))
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
        asked = _tighter(asked, needed - problem.budget, found.time - problem.deadline, result.solutions[-1])
        if asked.budget <= 0:
            break
    if not last or (result.status is SolverStatus.TIME_LIMIT and not result.solutions):
        raise NoScheduleError(
            f"{name}: {solver.name} found no schedule in {options.time_limit_s:g} s; raise --time-limit, or plan "
            "with --method optimal",
            Refused.NOT_FOUND,
        )
    raise NoScheduleError(
        f"{name} has no schedule within the limits: the last that it found {last}; plan with --method optimal"
    )


def _tighter(asked: Problem, lacking: int, late_s: float, solution: dict[str, float]) -> Problem:
    """The next limits to ask for, which a schedule does not keep that takes so much more than there is."""
    if lacking <= 0:
        return replace(asked, deadline=asked.deadline - late_s) if late_s > 0 else asked
    n = len(asked.node_time)
    own = round(asked.budget * max(solution[f"U[{t},{k}]"] for t in range(n) for k in range(t + 1)))
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


def _placed(graph: Graph, problem: Problem, found: Incumbent, budget: TimeBudget, seed: int) -> PlacedSchedule:
    """Steps with offsets, whether these are within the budget or not."""
    made = allocated(graph, problem, found)
    if graph.allocates:
        return made
    return replace(made, placement=place(graph, made.decoded.steps, problem.budget, budget, seed=seed))


def events_of_paper(problem: Problem, solution: dict[str, float]) -> Ints:
    """What a solution computes and pages in, as events (see `evaluation`) in the order of Algorithm 2."""
    n = len(problem.node_time)

    def on(name: str, t: int, i: int) -> bool:
        return solution.get(f"{name}[{t},{i}]", 0.0) > 0.5

    events: list[int] = []
    for t in range(n):
        events += [k for k in range(t + 1) if k == t or on("R", t, k)]
        # A page-in of stage t is there from stage t + 1 on.
        events += [
            n + v
            for i in range(t + 1)
            if on("M_in", t, i)
            for v in range(problem.output_start[i], problem.output_start[i + 1])
            if problem.pageable[v]
        ]
    return np.array(remade(problem, events), dtype=np.int64)


def _node_sizes(problem: Problem) -> Ints:
    sizes = np.zeros(len(problem.node_time), dtype=np.int64)
    np.add.at(sizes, problem.producer, problem.size)
    return sizes


def _transfer_times(problem: Problem) -> tuple[Floats, Floats]:
    """Seconds of paging all of a node's values in, and out. (n,)"""
    times = np.zeros((2, len(problem.node_time)))
    for k, seconds in enumerate((problem.in_time, problem.out_time)):
        np.add.at(times[k], problem.producer, seconds)
    return times[0], times[1]


def _node_pages(problem: Problem) -> list[tuple[float, float] | None]:
    """Energy of paging all of a node's values in, and out; None where one of them cannot be paged."""
    pages: list[tuple[float, float] | None] = []
    for i in range(len(problem.node_time)):
        own = slice(problem.output_start[i], problem.output_start[i + 1])
        held = problem.size[own] > 0
        if held.any() and problem.pageable[own][held].all():
            pages.append((float(problem.in_energy[own].sum()), float(problem.out_energy[own].sum())))
        else:
            pages.append(None)
    return pages
