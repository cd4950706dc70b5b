# SPDX-License-Identifier: Apache-2.0
"""Tensors on the card, and nodes that use the bus: the optimiser against brute force and the verifier."""

from __future__ import annotations

import math
import random

import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.kept_graphs import random_kept_graph


@pytest.mark.parametrize("seed", range(12))
def test_plans_are_those_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_kept_graph(seed)
    store_all = store_all_schedule(graph)
    ram = int(rng.choice((0.8, 0.9, 1.0)) * store_all.peak_bytes)
    deadline = rng.choice((None, 1.0, 1.2, 1.4))
    deadline_s = deadline and deadline * store_all.time_s
    least = least_energy(graph, ram, deadline_s)
    try:
        schedule = optimise(graph, ram, deadline_s, OptimiseOptions(time_limit_s=3))
    except NoScheduleError:
        assert math.isinf(least)
        return
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least, rel=1e-9)
    assert schedule.bound_j <= least * (1 + 1e-9)
