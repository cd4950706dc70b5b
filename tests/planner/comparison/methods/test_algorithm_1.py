# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 in arrays: row for row what Pyomo makes of the paper's lines, and as cheap as brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
import pytest
from poet_planner.comparison.methods import algorithm_1, algorithm_1_pyomo, poet_ilp
from poet_planner.comparison.methods.stages import nodes_of
from poet_planner.comparison.registry import method_named
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.milp.linear_model import LinearModel
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from tests.support.graphs.late_chain import DEADLINE_S, RAM_BYTES, late_chain
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import random_graph

NAMES = {"R": "R", "S_ram": "S", "S_aux": "A", "M_in": "I", "M_out": "O", "U": "U"}
Row = tuple[float, float, tuple[tuple[str, float], ...]]


def rows_of(terms: list[tuple[float, float, dict[str, float]]], fixed: dict[str, float]) -> list[Row]:
    """Rows without what is fixed, as lower limits where one is enough; sorted. Rows that always hold are left out."""
    while True:
        made = []
        for lower, upper, row in terms:
            known = sum(value * fixed[name] for name, value in row.items() if name in fixed)
            left = {name: value for name, value in row.items() if name not in fixed and value}
            low, high, sign = lower - known, upper - known, 1.0
            if low == -np.inf:
                low, high, sign = -high, np.inf, -1.0
            if left and not (high == np.inf and low <= sum(min(sign * value, 0) for value in left.values())):
                made.append((low, high, {name: sign * value for name, value in left.items()}))
        # What is at most 0 is 0.
        zero = {name for low, high, row in made for name in row if len(row) == 1 and low == 0 and high == np.inf}
        if not zero:
            return sorted(
                (round(low, 9) + 0.0, high, tuple(sorted((name, round(value, 9)) for name, value in row.items())))
                for low, high, row in made
            )
        terms, fixed = made, {**fixed, **dict.fromkeys(zero, 0.0)}


def in_arrays(problem: Problem) -> tuple[list[Row], dict[str, float]]:
    """Rows and costs by names of columns."""
    stages = algorithm_1.stated(problem)
    model = stages.model
    names = names_of(stages)
    fixed = {names[c]: float(model.lower[c]) for c in np.flatnonzero(model.lower == model.upper)}
    terms = []
    for r in range(len(model.row_lower)):
        own = slice(model.starts[r], model.starts[r + 1])
        row = dict(zip((names[c] for c in model.columns[own]), model.coefficients[own].tolist(), strict=True))
        assert len(row) == own.stop - own.start  # no column twice
        terms.append((float(model.row_lower[r]), float(model.row_upper[r]), row))
    return rows_of(terms, fixed), {
        names[c]: float(model.cost[c]) for c in np.flatnonzero((model.cost != 0) & (model.upper > 0))
    }


def names_of(stages: algorithm_1.Stages) -> list[str]:
    n = stages.nodes
    names = [""] * len(stages.model.cost)
    for name, first in stages.first.items():
        for number, (t, i) in enumerate(zip(*np.tril_indices(n), strict=True)):
            names[first + number] = f"{name}[{t},{i}]"
    unnamed = [number for number, name in enumerate(names) if not name]
    # What is left is FREE and the length of each stage: they have no names here, and are told apart by their rows.
    for number in unnamed:
        names[number] = f"#{number}"
    return names


def in_pyomo(problem: Problem) -> tuple[list[Row], dict[str, float]]:
    """The same of Pyomo's statement; its FREE and D by the numbers of the arrays' columns."""
    model = algorithm_1_pyomo.algorithm_1(problem)
    n = len(problem.node_time)
    first = max(algorithm_1.stated(problem).first.values()) + n * (n + 1) // 2
    numbers: dict[tuple[int, int, int], int] = {}
    for k in range(n):
        for i in sorted({i for t, i, after in model.FREE if t == n - 1 and after == k}):
            for t in range(k, n):
                numbers[t, i, k] = first + len(numbers)

    def name_of(variable: pyo.Var) -> str:
        name, index = variable.parent_component().local_name, variable.index()
        if name == "FREE":
            return f"#{numbers[index]}"
        if name == "D":
            return f"#{first + len(numbers) + index}"
        return f"{NAMES[name]}[{index[0]},{index[1]}]"

    fixed = {name_of(v): float(v.value) for v in model.component_data_objects(pyo.Var) if v.fixed}
    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    matrix, columns = form.A.tocsr(), [name_of(v) for v in form.columns]
    terms = []
    for r, (row, right) in enumerate(zip(form.rows, form.rhs, strict=True)):
        own = slice(matrix.indptr[r], matrix.indptr[r + 1])
        entries = dict(zip((columns[c] for c in matrix.indices[own]), matrix.data[own].tolist(), strict=True))
        limits = {0: (right, right), 1: (-np.inf, right), -1: (right, np.inf)}[row.bound_type]
        terms.append((float(limits[0]), float(limits[1]), entries))
    costs = dict(zip(columns, form.c.toarray()[0].tolist(), strict=True))
    costs |= {f"R[{t},{t}]": float(problem.node_energy[t]) / nodes_of(problem).unit_j for t in range(n)}
    return rows_of(terms, fixed), {name: c for name, c in costs.items() if c}


def problems() -> dict[str, Problem]:
    vgg, plain = paper_graph("vgg16_cifar.m4")
    chain = late_chain()
    made = {"vgg16": build_problem(vgg, plain.peak_bytes // 2, None)}
    made["vgg16, no pages"] = build_problem(vgg, plain.peak_bytes // 2, None, paging=False)
    made["deadline"] = build_problem(chain, RAM_BYTES, DEADLINE_S)
    made["deadline, DMA"] = build_problem(replace(chain, dma=True), RAM_BYTES, DEADLINE_S)
    for seed in range(5):
        graph = random_graph(seed)
        made[f"random {seed}"] = build_problem(graph, store_all_schedule(graph).peak_bytes, 100.0 if seed % 2 else None)
    return made


@pytest.mark.parametrize("name", problems())
def test_rows_and_costs_are_those_of_pyomos_statement(name: str) -> None:
    problem = problems()[name]
    (rows, costs), (theirs, their_costs) = in_arrays(problem), in_pyomo(problem)
    assert rows == theirs
    assert len(rows) > len(problem.node_time)
    assert costs == pytest.approx(their_costs)


@pytest.mark.parametrize("name", problems())
def test_coefficients_are_known_before_it_is_stated(name: str) -> None:
    problem = replace(problems()[name], deadline=np.inf)
    assert nodes_of(problem).coefficients == len(algorithm_1.stated(problem).model.columns)


def test_what_is_whole_in_the_paper_is_whole_but_for_what_follows() -> None:
    problem = problems()["random 1"]
    stages = algorithm_1.stated(problem)
    names = np.array([name[0] for name in names_of(stages)])
    assert set(names[stages.model.integer]) == set("RSIO")
    assert not np.isin(names[~stages.model.integer], list("RSIO")).any()
    assert not algorithm_1.stated(problem, whole=False).model.integer.any()


@pytest.mark.parametrize("name", ["checkmate", "checkmate_lp", "poet_ilp", "paper"])
def test_a_model_of_too_many_coefficients_is_refused_before_it_is_stated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithm_1, "MOST_COEFFICIENTS", 1_000)
    monkeypatch.setattr(algorithm_1_pyomo, "MOST_COEFFICIENTS", 1_000)
    monkeypatch.setattr(LinearModel, "__init__", None)  # nothing is stated
    graph, plain = paper_graph("linear.m4")
    with pytest.raises(UserError, match=r"^.*: 1\d,\d\d\d coefficients, and 1,000 is the most; use another method$"):
        method_named(name).schedule(graph, plain.peak_bytes * 4 // 5, None, OptimiseOptions())


def test_the_paper_in_pyomo_gives_the_same_energy() -> None:
    graph, deadline_s = late_chain(), DEADLINE_S
    made = [
        method_named(name).schedule(graph, RAM_BYTES, deadline_s, OptimiseOptions(time_limit_s=60))
        for name in ("poet_ilp", "paper")
    ]
    assert all(verify(graph, schedule).faults == () for schedule in made)
    assert made[0].energy_j == pytest.approx(made[1].energy_j)
    assert made[0].energy_j > store_all_schedule(graph).energy_j


def test_stating_takes_none_of_the_time() -> None:
    """By a clock that goes on by an hour while the model is stated."""
    now_s = 0.0
    stated = algorithm_1.stated

    def slowly(problem: Problem, name: str) -> algorithm_1.Stages:
        nonlocal now_s
        now_s += 3600.0
        return stated(problem, name)

    graph: Graph = late_chain()
    options = OptimiseOptions(time_limit_s=60, clock=lambda: now_s)
    schedule = poet_ilp.schedule(graph, RAM_BYTES, DEADLINE_S, options, state=slowly)
    assert now_s == 3600.0
    assert verify(graph, schedule).faults == ()
