# SPDX-License-Identifier: Apache-2.0
"""A solver that fails costs the bound, never the plan, and is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import highspy
import pytest
from poet_planner.report.summary import summarise
from poet_planner.report.table import rows
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, Parts, Statistics, optimise
from poet_planner.solve.milp.solvers import SolverResult, solver_named
from poet_planner.solve.statistics import Component
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.random_graphs import random_graph

LICENCE = "Model too large for size-limited license; visit https://gurobi.com/unrestricted for more information"


def no_milp(error: Exception) -> Callable[[pytest.MonkeyPatch], None]:
    """Every MILP raises it."""

    def fails(*_: object) -> SolverResult:
        raise error

    return lambda monkeypatch: monkeypatch.setattr(type(solver_named("highs")), "_solve", fails)


def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every MILP ends for no reason that is known."""
    monkeypatch.setattr(type(solver_named("highs")), "_solve", lambda *_: SolverResult())


def failing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of HiGHS but the first fails, as where its threads are others than before."""
    run, calls = highspy.Highs.run, 0

    def counted(highs: highspy.Highs) -> object:
        nonlocal calls
        calls += 1
        return run(highs) if calls == 1 else highspy.HighsStatus.kError

    monkeypatch.setattr(highspy.Highs, "run", counted)


def out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> object:
        raise MemoryError

    monkeypatch.setattr(highspy.Highs, "run", fails)


def no_highspy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)


MILP_FAULTS = {
    "a solver that raises": (no_milp(RuntimeError("gone\nwith a traceback")), "solver highs failed: gone; "),
    "a licence that refuses": (no_milp(ValueError(LICENCE)), f"solver highs failed: {LICENCE}; "),
    "a solver that says nothing": (nothing_found, "it ended with neither a solution nor a bound; "),
}
LP_FAULTS = {
    "runs that fail": (failing_runs, "HiGHS failed (run): its model status is "),
    "no memory": (out_of_memory, "solver highs failed: MemoryError; "),
    "no highspy": (no_highspy, "HiGHS cannot be loaded: "),
}
# The relaxation of the one needs a MILP; the other is bounded by downsets.
GRAPHS = {"branching": random_graph(2, 30), "large": layered_graph(200, 4, 1)}


def plan(graph: Graph, statistics: Statistics, told: list[str]) -> Schedule:
    """With the relaxation alone, and downsets if the graph is large."""
    parts = Parts(state_space=False, retained_sets=False, background_search=False)
    options = OptimiseOptions(
        time_limit_s=4,
        capped=False,
        parts=parts,
        statistics=statistics,
        progress=lambda state: told.append(state.note),
    )
    return optimise(graph, int(0.7 * store_all_schedule(graph).peak_bytes), None, options)


@cache
def sound_plan(name: str) -> tuple[Schedule, Statistics]:
    statistics = Statistics()
    return plan(GRAPHS[name], statistics, []), statistics


@pytest.mark.parametrize(
    ("name", "inject", "message"),
    [
        *(pytest.param("branching", *fault, id=f"branching, {name}") for name, fault in MILP_FAULTS.items()),
        *(pytest.param(graph, *LP_FAULTS[name], id=f"{graph}, {name}") for graph in GRAPHS for name in LP_FAULTS),
    ],
)
def test_the_plan_is_there_and_the_failure_is_told(
    name: str, inject: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, (sound, _) = GRAPHS[name], sound_plan(name)
    inject(monkeypatch)
    statistics, told = Statistics(), list[str]()
    schedule = plan(graph, statistics, told)
    assert verify(graph, schedule).faults == ()
    plain = store_all_schedule(graph)
    assert plain.energy_j * (1 - 1e-9) <= schedule.bound_j <= sound.energy_j * (1 + 1e-9)
    (failure,) = statistics.failures
    assert message in failure
    assert "\n" not in failure
    assert failure in told
    assert ("  a solver", "failed", failure) in rows(summarise(graph, schedule, plain, statistics=statistics))


def test_without_a_fault_nothing_is_told_and_each_part_that_can_fail_raises_the_bound() -> None:
    """Else the test above could not fail."""
    for name, parts in (("branching", {Component.MILP}), ("large", {Component.DOWNSETS})):
        _, statistics = sound_plan(name)
        assert statistics.failures == []
        assert all(statistics.of(part).bound_raised_j > 0 for part in parts)


def test_what_was_proven_before_a_failure_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    no_milp(RuntimeError("gone"))(monkeypatch)
    graph = GRAPHS["branching"]
    assert plan(graph, Statistics(), []).bound_j > 1.01 * store_all_schedule(graph).energy_j
