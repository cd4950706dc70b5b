# SPDX-License-Identifier: Apache-2.0
"""Every MILP solver that is installed, by the same models; what it answers is checked by enumeration."""

import itertools
import random
from collections.abc import Callable
from functools import cache

import pyomo.environ as pyo
import pytest
from poet_planner.comparison.methods import poet_ilp
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.failure import SolverError
from poet_planner.solve.milp.solvers import Solver, SolverResult, SolverStatus, solver_named, solvers
from poet_planner.solve.optimise import optimise
from poet_planner.solve.options import OptimiseOptions
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.errors import UserError
from poet_profiles.schedule import Schedule

from tests.support.graphs.chains import chain
from tests.support.graphs.paper_graphs import paper_graph

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
    stated = poet_ilp.algorithm_1(build_problem(graph, int(0.6 * plain.peak_bytes), None))
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


@each_solver
def test_a_cutoff_below_the_optimum_leaves_nothing(solver: Solver) -> None:
    result = solver.solve(knapsack(), TimeBudget(30.0), 1e-6, cutoff=least_left_behind() - 1.0)
    assert result.status is SolverStatus.CUT_OFF


def test_all_are_listed() -> None:
    assert {solver.name for solver in solvers()} == {"highs", "gurobi", "cbc", "scip"}
    assert solver_named("highs").available


def test_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> SolverResult:
        raise RuntimeError("no licence\nfor as much")

    highs = solver_named("highs")
    monkeypatch.setattr(type(highs), "_solve", fails)
    with pytest.raises(UserError, match=r"^solver highs failed: no licence; .*$"):
        highs.solve(knapsack(), TimeBudget(1.0), 1e-6)
