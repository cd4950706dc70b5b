# SPDX-License-Identifier: Apache-2.0
"""rotor's dynamic program: bracketed by revolve on unit chains, and as expensive as its schedules."""

from __future__ import annotations

import pytest
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.revolve import advances
from poet_planner.comparison.methods.rotor import Table, Walk, chain_of
from poet_planner.solve import OptimiseOptions

from tests.support.graphs.chains import block_chain
from tests.support.graphs.paper_graphs import paper_graph

SAVED = 40  # words that a block saves for its backward, for one that enters it


def test_it_is_bracketed_by_revolve() -> None:
    """rotor counts the running state, temporaries and gradients in RAM, revolve snapshots alone."""
    pairs = 0
    for depth in range(2, 13):
        graph = block_chain(depth, SAVED)
        instance = Instance(graph, 4 * (SAVED + 24), None, OptimiseOptions())
        table = Table(chain_of(instance, instance.time_s), instance, slot_bytes=4)
        for snapshots in range(1, 7):
            least = 2 * depth + advances(depth, snapshots)
            slots = snapshots - 1 + SAVED
            assert table.cost(0, depth - 1, slots + 4) <= least, (depth, snapshots)
            assert table.cost(0, depth - 1, slots + 3) >= least, (depth, snapshots)
            pairs += 1
    assert pairs == 66


@pytest.mark.parametrize("name", ["linear.m4", "resnet18_cifar.m4", "bert.m4"])
def test_schedules_cost_what_the_table_says(name: str) -> None:
    graph, store_all = paper_graph(name)
    instance = Instance(graph, store_all.peak_bytes, None, OptimiseOptions())
    chain = chain_of(instance, instance.time_s)
    table = Table(chain, instance)
    found = 0
    for share in (0.9, 0.7, 0.5, 0.4):
        slots = table.slots_in(int(share * store_all.peak_bytes))
        cost_s = table.cost(0, chain.length - 1, slots)
        if cost_s < float("inf"):
            walk = Walk(instance, chain)
            table.emit(0, chain.length - 1, slots, walk)
            replayed = instance.evaluated(walk.events)
            assert replayed is not None
            assert replayed.time == pytest.approx(cost_s, rel=1e-5)
            assert replayed.peak <= share * store_all.peak_bytes
            found += 1
    assert found >= 3
