# SPDX-License-Identifier: Apache-2.0
"""Tensors on the card, and nodes that use the bus: the optimiser against brute force and the verifier."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve.feasibility.deadline import deadline_feasibility
from poet_planner.solve.feasibility.minimum_ram import store_all
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.decode import decode
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph, Uses

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.kept_graphs import random_kept_graph
from tests.support.graphs.least_plans import assert_planned_as_by_brute_force
from tests.support.graphs.random_graphs import random_graph


def busy_graph(seed: int) -> Graph:
    """Of any shape, with transfers beside compute; each node uses what it likes."""
    rng = random.Random(seed)
    nodes = []
    for node in random_graph(seed, most_nodes=12).nodes:
        uses = rng.choice(list(Uses))
        nodes.append(replace(node, uses=uses, workspace_bytes=0 if uses is Uses.BUS else node.workspace_bytes))
    return Graph(f"busy {seed}", tuple(nodes), dma=True)


@pytest.mark.parametrize("seed", range(20))
def test_the_search_knows_the_time_that_the_verifier_finds(seed: int) -> None:
    graph = busy_graph(seed) if seed % 2 else random_kept_graph(seed, dma=True)
    store_all_bytes = store_all_schedule(graph).peak_bytes
    for share in (1.0, 0.9, 0.8):
        problem = build_problem(graph, int(share * store_all_bytes), None)
        search = Annealer(problem, seed)
        for _ in range(3):
            search.run(200)
            found = search.incumbent
            if found is None:
                continue
            decoded = decode(graph, problem, found.events)
            replay = verify(graph, replace(store_all_schedule(graph), steps=decoded.steps), check_offsets=False)
            assert [fault for fault in replay.faults if "is stated as" not in fault and "exceeds" not in fault] == []
            assert found.time == pytest.approx(replay.time_s, rel=1e-12)
            assert decoded.time_s == pytest.approx(replay.time_s, rel=1e-12)
            assert found.energy == pytest.approx(replay.energy_j, rel=1e-12)


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_plans_are_those_of_brute_force(seed: int, dma: bool) -> None:
    rng = random.Random(seed)
    graph = random_kept_graph(seed, dma)
    plain = store_all_schedule(graph)
    ram = int(rng.choice((0.8, 0.9, 1.0)) * plain.peak_bytes)
    deadline = rng.choice((None, 0.95, 1.0, 1.2))
    deadline_s = deadline and deadline * plain.time_s
    assert_planned_as_by_brute_force(graph, ram, deadline_s)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_proven_to_be_late_is_late(seed: int) -> None:
    """With deadlines around the shortest: the CPU alone, the bus alone, or both may be what is too busy."""
    graph = random_kept_graph(seed, dma=True)
    plain = store_all_schedule(graph)
    for share in (0.7, 0.85, 0.95, 1.0):
        ram_bytes, deadline_s = plain.peak_bytes, share * plain.time_s
        problem = build_problem(graph, ram_bytes, deadline_s)
        result = deadline_feasibility(problem, store_all(problem), seed, solver_named("highs"), TimeBudget(0.5))
        exists = math.isfinite(least_energy(graph, ram_bytes, deadline_s))
        assert not (exists and result.infeasible)
        assert result.schedule is None or exists
