# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 with a deadline: it ends with a schedule in time, or says why there is none; against brute force."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from poet_planner.comparison.methods import poet_ilp
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_planner.solve.milp.solvers import Solver, SolverResult, SolverStatus
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.late_chain import DEADLINE_S, RAM_BYTES, late_chain
from tests.support.graphs.random_graphs import random_graph

Solve = Callable[..., SolverResult]


def planned(graph: Graph, ram_bytes: int, deadline_s: float | None) -> Schedule:
    return poet_ilp.schedule(graph, ram_bytes, deadline_s, OptimiseOptions(time_limit_s=60))


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[SolverResult]:
    """What each solve came to."""
    results: list[SolverResult] = []
    solve: Solve = Solver.solve

    def kept(*arguments: object) -> SolverResult:
        results.append(solve(*arguments))
        return results[-1]

    monkeypatch.setattr(Solver, "solve", kept)
    return results


def test_transfers_count_so_that_the_first_solution_is_in_time(solved: list[SolverResult]) -> None:
    graph = late_chain()
    schedule = planned(graph, RAM_BYTES, DEADLINE_S)
    assert len(solved) == 1
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least_energy(graph, RAM_BYTES, DEADLINE_S))


def test_where_none_is_in_time_it_says_so_and_what_would_do(solved: list[SolverResult]) -> None:
    with pytest.raises(NoScheduleError, match="no schedule fits 16 KB within 19 s") as caught:
        planned(late_chain(), RAM_BYTES, 19.0)
    assert solved[0].status is SolverStatus.INFEASIBLE
    assert caught.value.possible_s == pytest.approx(22.0)
    assert least_energy(late_chain(), RAM_BYTES, 22.0) < float("inf") == least_energy(late_chain(), RAM_BYTES, 19.0)


@pytest.mark.parametrize("dma", [False, True])
def test_chains_against_brute_force(dma: bool, solved: list[SolverResult]) -> None:
    """In time, never cheaper than the least, without DMA as cheap; and none where there is none."""
    graph = replace(late_chain(3), dma=dma)
    plain = store_all_schedule(graph)
    found = 0
    for ram_bytes in (12288, 14336):
        for share in (1.0, 1.1, 1.25, 1.5, 1.8, 3.0):
            solved.clear()
            least_j = least_energy(graph, ram_bytes, share * plain.time_s)
            try:
                schedule = planned(graph, ram_bytes, share * plain.time_s)
            except UserError as lack:
                assert lack.exit_code == NO_SCHEDULE
                assert dma or "--time-limit" not in str(lack)
                assert dma or least_j == float("inf"), (ram_bytes, share)
                continue
            found += 1
            assert verify(graph, schedule).faults == ()
            assert schedule.energy_j >= least_j * (1 - 1e-9)
            assert dma or schedule.energy_j == pytest.approx(least_j), (ram_bytes, share)
            assert dma or len(solved) == 1
    assert found >= 4


def test_with_dma_what_is_late_all_the_same_is_said_to_be() -> None:
    """Within a stage the model lets computes and transfers overlap that wait for one another."""
    with pytest.raises(UserError, match="that it found needs 16384 bytes and 24 s; plan with --method optimal"):
        planned(replace(late_chain(), dma=True), RAM_BYTES, DEADLINE_S)


@pytest.mark.parametrize("seed", [29, 34])
def test_what_takes_more_ram_than_the_model_says_is_solved_again_in_less(seed: int, solved: list[SolverResult]) -> None:
    """And the next solution is another one."""
    graph = random_graph(seed)
    schedule = planned(graph, int(0.95 * store_all_schedule(graph).peak_bytes), None)
    assert verify(graph, schedule).faults == ()
    first, second = (result.solutions[-1] for result in solved)
    assert first != second


def test_what_takes_more_ram_than_there_is_in_the_end_is_said() -> None:
    graph = random_graph(12)
    with pytest.raises(UserError, match=r"no schedule within the limits: the last that it found needs 52 bytes and "):
        planned(graph, int(0.95 * store_all_schedule(graph).peak_bytes), None)


def test_what_is_not_found_in_time_names_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Solver, "solve", lambda *_: SolverResult(status=SolverStatus.TIME_LIMIT))
    with pytest.raises(UserError, match="highs found no schedule in 60 s; raise --time-limit"):
        planned(late_chain(), RAM_BYTES, DEADLINE_S)


def test_the_first_import_of_pyomo_is_not_counted() -> None:
    program = """
import sys
from poet_planner.comparison.methods import poet_ilp
from poet_planner.solve import OptimiseOptions
from tests.support.graphs.chains import chain

read = []
def clock():
    read.append("pyomo.environ" in sys.modules)
    return 0.0

assert "pyomo.environ" not in sys.modules
poet_ilp.schedule(chain(3), 16, None, OptimiseOptions(clock=clock))
assert read and all(read)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
