# SPDX-License-Identifier: Apache-2.0
"""Chen's checkpoints: the counts of the paper, on chains."""

from __future__ import annotations

from collections import Counter

import pytest
from poet_planner.comparison.methods import chen
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.linearisation import cuts
from poet_planner.solve import OptimiseOptions
from poet_profiles.graph import Graph

from tests.support.graphs.chains import training_chain
from tests.support.graphs.paper_graphs import paper_graph


def instance_of(graph: Graph, ram_bytes: int = 1 << 40) -> Instance:
    return Instance(graph, ram_bytes, None, OptimiseOptions())


def test_sixteen_equal_steps_keep_every_fourth() -> None:
    assert chen.every_root(list(range(1, 17))) == [4, 8, 12, 16]


@pytest.mark.parametrize(("depth", "step"), [(16, 4), (17, 4), (20, 5), (9, 2), (3, 1)])
def test_each_segment_but_the_last_is_computed_once_more_but_for_its_checkpoint(depth: int, step: int) -> None:
    instance = instance_of(training_chain(depth))
    checkpoints = list(range(step - 1, depth, step))
    events = chen.order(instance, checkpoints)
    again = {node: times - 1 for node, times in Counter(events).items() if times > 1}
    # A checkpoint at the very end ends the last segment.
    last_segment = max((c + 1 for c in checkpoints if c + 1 < depth), default=0)
    assert again == {node: 1 for node in range(last_segment) if node not in checkpoints}
    # RAM at most: the checkpoints, one segment, and a gradient in and out.
    found = instance.evaluated(events)
    assert found is not None
    assert found.peak <= 4 * (len(checkpoints) + step + 2)


def test_the_greedy_method_counts_bytes() -> None:
    instance = instance_of(training_chain(10))
    assert chen.spaced_by_bytes(instance, range(10), 8) == [2, 5, 8]
    assert chen.spaced_by_bytes(instance, {3, 4, 9}, 8) == [3, 9]
    assert chen.spaced_by_bytes(instance, range(10), 1000) == []


def test_recomputation_costs_less_than_a_forward_pass() -> None:
    """On a network with shortcuts, and no node is computed more than twice where checkpoints are cuts."""
    graph, store_all = paper_graph("resnet18_cifar.m4")
    instance = instance_of(graph)
    events = chen.order(instance, chen.every_root(cuts(instance)))
    assert max(Counter(events).values()) == 2
    found = instance.evaluated(events)
    assert found is not None
    forward_j = sum(instance.energy_j[: instance.first_backward])
    assert store_all.energy_j < found.energy < store_all.energy_j + forward_j
    assert found.peak < store_all.peak_bytes / 2
