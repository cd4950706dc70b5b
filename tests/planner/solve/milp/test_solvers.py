# SPDX-License-Identifier: Apache-2.0
"""Every MILP solver that is installed, by the same models; what it answers is checked by enumeration."""

import itertools
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pyomo.environ as pyo
import pytest
from poet_planner.comparison.methods import algorithm_1_pyomo, poet_ilp
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.failure import SolverError
from poet_planner.solve.milp.linear_model import LinearModel, Rows
from poet_planner.solve.milp.solvers import MilpResult, Solver, SolverResult, SolverStatus, solver_named, solvers
from poet_planner.solve.optimise import optimise
from poet_planner.solve.options import OptimiseOptions
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path
from poet_profiles.errors import UserError
from poet_profiles.schedule import Schedule

from tests.support.graphs.chains import chain
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.solved_problems import solved_problem, store_all_j

THINGS = 14
RANDOM = random.Random(18)
WEIGHTS = [[RANDOM.randint(5, 60) for _ in range(THINGS)] for _ in range(3)]
VALUES = [float(RANDOM.randint(20, 60)) for _ in range(THINGS)]
ROOM = 180.0


def installed(solver: Solver) -> object:
    return pytest.param(
        solver,
        id=solver.name,
        marks=() if solver.available else pytest.mark.skip(reason=f"{solver.name}: {solver.note}"),
    )


each_solver = pytest.mark.parametrize("solver", [installed(solver) for solver in solvers()])


def knapsack(room: float = ROOM) -> pyo.ConcreteModel:
    """What is left behind is to be worth little; the variable ``idle`` is in no row."""
    model = pyo.ConcreteModel()
    things = range(THINGS)
    model.taken = pyo.Var(things, domain=pyo.Binary)
    model.idle = pyo.Var(bounds=(0, 1))
    model.rooms = pyo.ConstraintList()
    for weights in WEIGHTS:
        model.rooms.add(sum(weights[k] * model.taken[k] for k in things) <= room)
    model.left = pyo.Objective(expr=100.0 + sum(VALUES[k] * (1 - model.taken[k]) for k in things))
    return model


def left_behind(taken: tuple[int, ...]) -> float:
    return 100.0 + sum(value * (1 - on) for value, on in zip(VALUES, taken, strict=True))


def fits(taken: tuple[int, ...]) -> bool:
    return all(sum(w * on for w, on in zip(weights, taken, strict=True)) <= ROOM for weights in WEIGHTS)


@cache
def least_left_behind() -> float:
    return min(map(left_behind, filter(fits, itertools.product((0, 1), repeat=THINGS))))


def taken_in(result: SolverResult) -> tuple[int, ...]:
    return tuple(round(result.solutions[-1][f"taken[{k}]"]) for k in range(THINGS))


@each_solver
@pytest.mark.parametrize("gap", [1e-6, 10.0])
def test_solution_and_bound(solver: Solver, gap: float) -> None:
    result = solver.solve(knapsack(), TimeBudget(30.0), gap)
    found, least = left_behind(taken_in(result)), least_left_behind()
    assert result.status is SolverStatus.OPTIMAL
    assert least <= found <= least + gap
    assert found - gap - 1e-6 <= result.bound <= least + 1e-6


@each_solver
def test_infeasible(solver: Solver) -> None:
    result = solver.solve(knapsack(room=-1.0), TimeBudget(30.0), 1e-6)
    assert result.status is SolverStatus.INFEASIBLE
    assert result.solutions == []


@each_solver
def test_no_time(solver: Solver) -> None:
    """Solutions and bound hold all the same."""
    result = solver.solve(knapsack(), TimeBudget(0.0), 1e-6)
    assert result.bound <= least_left_behind() + 1e-6
    assert not result.status.has_no_solution


@each_solver
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_what_is_left_at_the_limit_is_whole_and_nothing_is_said_of_it(
    solver: Solver, seconds: float, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A small model, and one whose first whole solution may take longer."""
    graph, plain = paper_graph("linear.m4")
    stated = algorithm_1_pyomo.algorithm_1(build_problem(graph, int(0.6 * plain.peak_bytes), None))
    for model in (knapsack(), stated):
        try:
            result = solver.solve(model, TimeBudget(seconds), 1e-6)
        except SolverError as lack:
            assert "license" in str(lack)
            continue
        for values in result.solutions:
            whole = [value for name, value in values.items() if name.startswith(("R[", "S_", "M_", "taken["))]
            assert all(abs(value - round(value)) < 1e-5 for value in whole)
        assert result.status is not SolverStatus.FAILED
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


@each_solver
@pytest.mark.parametrize("schedule_by", [optimise, poet_ilp.schedule])
def test_plans(solver: Solver, schedule_by: Callable[..., Schedule]) -> None:
    """A chain of four in RAM for four values; small enough that the proof ends the run, not the time."""
    graph = chain(4)
    options = OptimiseOptions(solver=solver.name, time_limit_s=600)
    try:
        schedule = schedule_by(graph, 16, None, options)
    except UserError as lack:
        if "license" not in str(lack):
            raise
        pytest.skip(str(lack))
    assert verify(graph, schedule).faults == ()


def knapsack_in_arrays(room: float = ROOM) -> LinearModel:
    """The same; its last column is in no row, the one before it is 1 and takes half the room of each row."""
    rows = Rows()
    for weights in WEIGHTS:
        rows.add([*range(THINGS), THINGS], [*map(float, weights), room], -np.inf, room * 2)
    rows.add([THINGS], [1.0], 0.0, 1.0)
    cost = np.array([*(-value for value in VALUES), 0.0, 1.0])
    lower = np.array([*[0.0] * THINGS, 1.0, 0.25])
    whole = np.array([True] * THINGS + [False, False])
    return LinearModel.of(cost, 100.0 + sum(VALUES) - 0.25, lower, np.ones(THINGS + 2), whole, rows)


@each_solver
@pytest.mark.parametrize("solve", [Solver.solve_linear, lambda solver, *given: solver.solve_arrays(*given)])
def test_a_linear_model(solver: Solver, solve: Callable[..., MilpResult]) -> None:
    """In its own columns, those that are fixed or in no row included."""
    result = solve(solver, knapsack_in_arrays(), TimeBudget(30.0), 1e-6)
    point = result.solutions[-1]
    assert result.status is SolverStatus.OPTIMAL
    assert left_behind(tuple(round(value) for value in point[:THINGS])) == pytest.approx(least_left_behind())
    assert point[THINGS:] == pytest.approx([1.0, 0.25])
    assert result.bound == pytest.approx(least_left_behind())


@each_solver
@pytest.mark.parametrize("solve", [Solver.solve_linear, lambda solver, *given: solver.solve_arrays(*given)])
def test_a_linear_model_with_a_row_that_nothing_keeps(solver: Solver, solve: Callable[..., MilpResult]) -> None:
    """Its only column is fixed."""
    rows = Rows()
    rows.add([0], [1.0], 2.0, np.inf)
    model = LinearModel.of(np.ones(2), 0.0, np.array([1.0, 0.0]), np.ones(2), np.ones(2, dtype=np.bool_), rows)
    result = solve(solver, model, TimeBudget(30.0), 1e-6)
    assert result.status is SolverStatus.INFEASIBLE
    assert result.solutions == ()


@each_solver
def test_a_linear_model_with_no_whole_column_is_an_lp(solver: Solver) -> None:
    """Half of the last thing is taken: by weight, where all are worth the same a unit of it."""
    model = knapsack_in_arrays()
    lp = solver.solve_arrays(replace(model, integer=np.zeros_like(model.integer)), TimeBudget(30.0), 1e-6)
    assert lp.status is SolverStatus.OPTIMAL
    assert lp.bound < least_left_behind() - 1e-3
    assert lp.bound == pytest.approx(float(model.cost @ lp.solutions[-1]) + model.constant)


@each_solver
def test_a_cutoff_below_the_optimum_leaves_nothing(solver: Solver) -> None:
    result = solver.solve(knapsack(), TimeBudget(30.0), 1e-6, cutoff=least_left_behind() - 1.0)
    assert result.status is SolverStatus.CUT_OFF


def test_all_are_listed() -> None:
    assert {solver.name for solver in solvers()} == {"highs", "gurobi", "cbc", "scip"}
    assert solver_named("highs").available


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("License expired 2026-11-23\nsee the log", "installed, licence ended on 2026-11-23"),
        ("No Gurobi license found", "installed, without a licence: No Gurobi license found"),
    ],
)
def test_a_package_without_a_licence_is_installed(said: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first words are those of gurobipy 12.0.3 after its own licence's last day."""

    def refuses(params: dict[str, int]) -> None:
        assert params == {"OutputFlag": 0}
        raise package.GurobiError(said)

    package = ModuleType("gurobipy")
    package.__spec__ = ModuleSpec("gurobipy", None)
    package.GurobiError, package.Env = type("GurobiError", (Exception,), {}), refuses  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gurobipy", package)
    gurobi = next(solver for solver in solvers() if solver.name == "gurobi")
    monkeypatch.setattr(type(gurobi), "available", False)
    assert gurobi.state == state
    with pytest.raises(UserError, match=f"^solver gurobi, {state.partition(', ')[2]}: "):
        solver_named("gurobi")
    monkeypatch.setattr("poet_planner.solve.milp.solvers.find_spec", lambda name: None)
    assert gurobi.state == "not installed"


@pytest.mark.parametrize("seed", range(12))
def test_a_cutoff_raises_no_bound_above_the_least_energy(seed: int) -> None:
    """HiGHS takes the cutoff as `objective_bound`, at and round the optimum, for what poet solves by it."""
    problem, least_j = solved_problem(seed)
    if not np.isfinite(least_j):
        return
    relaxed = build_relaxation(problem, longest_path(problem), np.inf)
    least = (least_j - store_all_j(problem)) * relaxed.scale
    for share in (0.5, 0.999, 1.0, 1.001, 2.0, np.inf):
        cutoff = share * least if least else share - 1
        result = solver_named("highs").solve_linear(relaxed.model, TimeBudget(30.0), 1e-6, cutoff)
        assert min(result.bound, cutoff) <= least + 1e-5


def test_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> SolverResult:
        raise RuntimeError("no licence\nfor as much")

    highs = solver_named("highs")
    monkeypatch.setattr(type(highs), "_solve", fails)
    with pytest.raises(UserError, match=r"^solver highs failed: no licence; .*$"):
        highs.solve(knapsack(), TimeBudget(1.0), 1e-6)
