# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 in Pyomo, a line of the paper a line: for graphs that are small, and as the check of `algorithm_1`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from poet_planner.comparison.methods.stages import RELATIVE_GAP, Answer, Solution, nodes_of, refuse_too_many
from poet_planner.solve.instance import Flags, Floats, Problem
from poet_planner.solve.milp.linear_model import SCALE
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import producers

if TYPE_CHECKING:
    import pyomo.environ as pyo

# Pyomo takes a minute of processor time to state and hand over so many.
MOST_COEFFICIENTS = 1_000_000
VARIABLES = ("R", "S_ram", "S_aux", "M_in", "M_out", "U")  # by stage and node, as the paper names them


@dataclass(frozen=True)
class PyomoStages:
    """The model, how many nodes it has, and what it counts energies in."""

    model: pyo.ConcreteModel
    nodes: int
    unit_j: float

    def solved(self, solver: Solver, budget: TimeBudget) -> Answer:
        """What a solver finds."""
        result = solver.solve(self.model, budget, SCALE * RELATIVE_GAP)
        bound = result.bound * self.unit_j
        if not result.solutions:
            return Answer(result.status, None, bound)
        values = result.solutions[-1]

        def square(name: str, diagonal: float) -> Floats:
            """A variable by stage and node; those that are fixed reach no solver."""
            return np.array(
                [
                    [values.get(f"{name}[{t},{i}]", diagonal * (t == i)) for i in range(self.nodes)]
                    for t in range(self.nodes)
                ]
            )

        most_ram = float(np.tril(square("U", 0.0)).max())
        return Answer(result.status, Solution(square("R", 1.0) > 0.5, square("M_in", 0.0) > 0.5, most_ram), bound)


def stated(problem: Problem, name: str) -> PyomoStages:
    """Algorithm 1 for a problem.

    Raises
    ------
    UserError
        If it is too large for Pyomo.
    """
    nodes = nodes_of(problem)
    refuse_too_many(nodes, MOST_COEFFICIENTS, name)
    return PyomoStages(algorithm_1(problem), len(problem.node_time), nodes.unit_j)


def algorithm_1(problem: Problem) -> pyo.ConcreteModel:
    """The MILP over stages 0..n-1: R, S_RAM, S_AUX, M_in, M_out, FREE and U."""
    import pyomo.environ as pyo

    n, budget, nodes = len(problem.node_time), problem.budget, nodes_of(problem)
    size, pageable, unit = nodes.size, nodes.pageable, nodes.unit_j
    inputs = [producers(problem, j).tolist() for j in range(n)]
    users = [[j for j in range(n) if i in inputs[j]] for i in range(n)]

    model = pyo.ConcreteModel()
    stages = range(n)
    free = [[(t, i, k) for k in range(t + 1) for i in (*inputs[k], k)] for t in stages]
    all_free = list(chain.from_iterable(free))
    for variable in VARIABLES:
        domain, bounds = (pyo.Reals, (0, 1)) if variable == "U" else (pyo.Binary, None)
        model.add_component(variable, pyo.Var(stages, stages, domain=domain, bounds=bounds))
    model.FREE = pyo.Var(all_free, domain=pyo.Binary)
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
            if not pageable[i]:
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
    _add_deadline(problem, model)
    model.energy = pyo.Objective(
        expr=sum(
            float(problem.node_energy[i]) / unit * model.R[t, i]
            + float(nodes.in_j[i]) / unit * model.M_in[t, i]
            + float(nodes.out_j[i]) / unit * model.M_out[t, i]
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
    n, nodes = len(problem.node_time), nodes_of(problem)
    # In deadlines: solvers' tolerances are absolute.
    node, fetch, store = (time / problem.deadline for time in (problem.node_time, nodes.in_s, nodes.out_s))

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
