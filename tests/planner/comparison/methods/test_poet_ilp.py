# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 with a deadline: it ends with a schedule in time, or says why there is none; against brute force."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from poet_planner.comparison.methods import poet_ilp
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_planner.solve.milp.solvers import Highs, MilpResult, SolverStatus
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.late_chain import DEADLINE_S, RAM_BYTES, late_chain
from tests.support.graphs.random_graphs import random_graph

Solve = Callable[..., MilpResult]


def planned(graph: Graph, ram_bytes: int, deadline_s: float | None) -> Schedule:
    return poet_ilp.schedule(graph, ram_bytes, deadline_s, OptimiseOptions(time_limit_s=60))


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[MilpResult]:
    """What each solve came to."""
    results: list[MilpResult] = []
    solve: Solve = Highs.solve_arrays

    def kept(*arguments: object) -> MilpResult:
        results.append(solve(*arguments))
        return results[-1]

    monkeypatch.setattr(Highs, "solve_arrays", kept)
    return results


def test_transfers_count_so_that_the_first_solution_is_in_time(solved: list[MilpResult]) -> None:
    graph = late_chain()
    schedule = planned(graph, RAM_BYTES, DEADLINE_S)
    assert len(solved) == 1
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least_energy(graph, RAM_BYTES, DEADLINE_S))


def test_where_none_is_in_time_it_says_so_and_what_would_do(solved: list[MilpResult]) -> None:
    with pytest.raises(NoScheduleError, match="no schedule fits 16 KB within 19 s") as caught:
        planned(late_chain(), RAM_BYTES, 19.0)
    assert solved[0].status is SolverStatus.INFEASIBLE
    assert caught.value.possible_s == pytest.approx(22.0)
    assert least_energy(late_chain(), RAM_BYTES, 22.0) < float("inf") == least_energy(late_chain(), RAM_BYTES, 19.0)


@pytest.mark.parametrize("dma", [False, True])
def test_chains_against_brute_force(dma: bool, solved: list[MilpResult]) -> None:
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
    with pytest.raises(UserError, match="that it found needs 12288 bytes and 20 s; plan with --method optimal"):
        planned(replace(late_chain(4), dma=True), 12288, 19.5)


@pytest.mark.parametrize("seed", [29, 34])
def test_what_takes_more_ram_than_the_model_says_is_solved_again_in_less(seed: int, solved: list[MilpResult]) -> None:
    """And the next solution is another one."""
    graph = random_graph(seed)
    schedule = planned(graph, int(0.95 * store_all_schedule(graph).peak_bytes), None)
    assert verify(graph, schedule).faults == ()
    first, second = (result.solutions[-1] for result in solved)
    assert (first != second).any()


def test_what_takes_more_ram_than_there_is_in_the_end_is_said() -> None:
    graph = random_graph(12)
    with pytest.raises(UserError, match=r"no schedule within the limits: the last that it found needs 52 bytes and "):
        planned(graph, int(0.95 * store_all_schedule(graph).peak_bytes), None)


def test_what_is_not_found_in_time_names_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Highs, "solve_arrays", lambda *_: MilpResult(status=SolverStatus.TIME_LIMIT))
    with pytest.raises(UserError, match="highs found no schedule in 60 s; raise --time-limit"):
        planned(late_chain(), RAM_BYTES, DEADLINE_S)


def random_chain(rng: random.Random) -> Graph:
    """Four layers forwards and back, of random costs; whole numbers, so that sums are exact."""
    graph = late_chain(4)
    nodes = (
        replace(node, time_s=float(rng.randint(1, 3)), energy_j=float(rng.randint(1, 4)))
        if node.id.startswith("f")
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def test_random_chains_are_in_time_and_as_cheap_as_brute_force_or_have_no_schedule(solved: list[MilpResult]) -> None:
    rng = random.Random(58)
    found = dear = 0
    for number in range(16):
        graph = random_chain(rng)
        plain = store_all_schedule(graph)
        deadline_s = rng.choice((1.05, 1.15, 1.25, 1.4)) * plain.time_s
        solved.clear()
        least_j = least_energy(graph, RAM_BYTES, deadline_s)
        try:
            schedule = planned(graph, RAM_BYTES, deadline_s)
        except NoScheduleError:
            assert least_j == float("inf"), number
            continue
        assert verify(graph, schedule).faults == (), number
        assert schedule.time_s <= deadline_s
        assert schedule.energy_j == pytest.approx(least_j), number
        assert len(solved) <= 8
        found += 1
        dear += schedule.energy_j > plain.energy_j
    assert 8 <= dear <= found < 16


def test_highs_is_given_arrays_without_pyomo() -> None:
    program = """
import sys
from poet_planner.comparison.methods import poet_ilp
from poet_planner.solve import OptimiseOptions
from tests.support.graphs.chains import chain

poet_ilp.schedule(chain(3), 16, None, OptimiseOptions())
assert "pyomo" not in sys.modules and "highspy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
