# SPDX-License-Identifier: Apache-2.0
"""Nodes that take over inputs: the optimiser against brute force and the verifier."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import build_problem
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.decode import decode
from poet_profiles.graph.sizes import smallest_ram_bytes

from tests.support.graphs.kept_graphs import random_kept_graph
from tests.support.graphs.least_plans import assert_planned_as_by_brute_force
from tests.support.graphs.random_graphs import random_graph
from tests.support.graphs.taking_over import random_in_place_graph, with_random_taking_over


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_the_search_knows_what_the_verifier_finds(seed: int, dma: bool) -> None:
    graph = with_random_taking_over(random_graph(seed, most_nodes=12), seed)
    if seed % 2:
        graph = with_random_taking_over(random_kept_graph(seed, dma), seed)
    graph = replace(graph, dma=dma)
    store_all = store_all_schedule(graph)
    for share in (1.0, 0.9, 0.8):
        problem = build_problem(graph, int(share * store_all.peak_bytes), None)
        search = Annealer(problem, seed)
        for _ in range(3):
            search.run(200)
            found = search.incumbent
            if found is None:
                continue
            decoded = decode(graph, problem, found.events)
            replay = verify(graph, replace(store_all, steps=decoded.steps), check_offsets=False)
            assert [fault for fault in replay.faults if "is stated as" not in fault and "exceeds" not in fault] == []
            assert [found.time, decoded.time_s] == pytest.approx(2 * [replay.time_s], rel=1e-12)
            assert found.energy == pytest.approx(replay.energy_j, rel=1e-12)
            assert graph.resident_bytes + decoded.peak == replay.peak_bytes


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_plans_are_those_of_brute_force(seed: int, dma: bool) -> None:
    draw = random.Random(seed)
    graph = replace(random_in_place_graph(seed), dma=dma)
    plain = store_all_schedule(graph)
    ram = draw.randint(smallest_ram_bytes(graph), plain.peak_bytes)
    deadline = draw.choice((None, 0.95, 1.0, 1.2))
    deadline_s = deadline and deadline * plain.time_s
    assert_planned_as_by_brute_force(graph, ram, deadline_s)
