# SPDX-License-Identifier: Apache-2.0
"""Checkmate: exact on chains; its LP below, its rounding above."""

from __future__ import annotations

import random

import pytest
from poet_planner.comparison.methods import checkmate
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.registry import method_named
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, Value

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.paper_graphs import paper_graph


def random_chain(seed: int, depth: int) -> Graph:
    """A chain forwards and back; a backward node reads its own activation, or the one in front, or both."""
    rng = random.Random(seed)

    def node(id: str, *inputs: str) -> Node:
        cost = rng.choice((1.0, 2.0, 5.0))
        return Node(id, cost, cost, (Value(id, 4 * rng.randint(1, 4)),), inputs, backward=id.startswith("g"))

    nodes = [node(f"a{k}", *([f"a{k - 1}"] if k else [])) for k in range(depth)]
    for k in range(depth - 1, -1, -1):
        read = {f"a{j}" for j in rng.choice(((k,), (k - 1,), (k - 1, k))) if j >= 0}
        read.add(f"g{k + 1}" if k < depth - 1 else f"a{k}")
        nodes.append(node(f"g{k}", *sorted(read)))
    return Graph(f"random chain {seed}", tuple(nodes))


def test_on_chains_it_is_as_cheap_as_brute_force_and_its_lp_no_more_expensive() -> None:
    overheads = []
    for seed in range(8):
        graph = random_chain(seed, 4)
        store_all = store_all_schedule(graph)
        ram = int(0.85 * store_all.peak_bytes)
        least_j = least_energy(graph, ram, None)
        if least_j == float("inf"):
            with pytest.raises(UserError):
                method_named("checkmate").schedule(graph, ram, None, OptimiseOptions(time_limit_s=120))
            continue
        schedule = method_named("checkmate").schedule(graph, ram, None, OptimiseOptions(time_limit_s=120))
        assert verify(graph, schedule).faults == (), seed
        assert schedule.energy_j == pytest.approx(least_j), seed
        instance = Instance(graph, ram, None, OptimiseOptions())
        lp = checkmate.relaxed(instance.problem, ram, solver_named("highs"), UNLIMITED)
        assert lp.kept is not None
        assert lp.bound_s <= least_j * (1 + 1e-6), seed
        overheads.append(least_j / store_all.energy_j - 1)
    assert sum(overhead > 0 for overhead in overheads) >= 3


def test_rounding_gives_schedules() -> None:
    graph, store_all = paper_graph("linear.m4")
    ram = int(0.8 * store_all.peak_bytes)
    options = OptimiseOptions(time_limit_s=120)
    rounded = method_named("checkmate_lp").schedule(graph, ram, None, options)
    assert verify(graph, rounded).faults == ()
    exact = method_named("checkmate").schedule(graph, ram, None, options)
    assert store_all.energy_j < exact.energy_j <= rounded.energy_j * (1 + 1e-9)
