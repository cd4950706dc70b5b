# SPDX-License-Identifier: Apache-2.0
"""Cuts and blocks, against a definition by brute force and counts of known networks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.linearisation import blocks, cuts
from poet_planner.comparison.registry import method_named
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions
from poet_profiles.graph import Node, Value

from tests.support.graphs.chains import training_chain
from tests.support.graphs.paper_graphs import paper_graph


@pytest.mark.parametrize(
    ("name", "count", "forward"),
    [("linear", 13, 14), ("vgg16", 40, 41), ("resnet18_cifar", 18, 67), ("resnet50", 87, 168), ("bert", 13, 98)],
)
def test_cuts_are_where_one_value_alone_is_read_later(name: str, count: int, forward: int) -> None:
    graph, _ = paper_graph(f"{name}.m4")
    instance = Instance(graph, 1 << 40, None, OptimiseOptions())
    nodes = graph.nodes[: instance.first_backward]
    crossing = [
        {v.id for node in nodes[: k + 1] for v in node.values if v.bytes}
        & {id for node in nodes[k + 1 :] for id in node.inputs}
        for k in range(len(nodes))
    ]
    expected = [k for k, ids in enumerate(crossing) if ids and ids <= {v.id for v in nodes[k].values} and len(ids) == 1]
    assert cuts(instance) == expected
    assert (len(expected), len(nodes)) == (count, forward)


@pytest.mark.parametrize("name", ["linear.m4", "resnet18_cifar.m4", "bert.m4"])
def test_blocks_hold_each_node_once_and_backward_blocks_follow_one_another(name: str) -> None:
    instance = Instance(paper_graph(name)[0], 1 << 40, None, OptimiseOptions())
    made = blocks(instance)
    assert [node for block in made.forward for node in block] == list(range(instance.first_backward))
    backward = [node for block in reversed(made.backward) for node in block]
    assert backward == list(range(instance.first_backward, instance.nodes))


def test_running_statistics_that_are_updated_at_once_do_not_begin_the_backward_pass() -> None:
    """As where parameters do not count: the update belongs to the backward pass, and yields nothing."""
    chain = training_chain(6)
    update = Node("statistics", 0.1, 0.1, (Value("statistics", 0),), ("f0",), recomputable=False, backward=True)
    graph = replace(chain, nodes=(chain.nodes[0], update, *chain.nodes[1:]))
    instance = Instance(graph, 1 << 40, None, OptimiseOptions())
    assert graph.nodes[instance.first_backward].id == "b5"
    for name in ("chen_greedy", "revolve", "rotor", "capuchin"):
        ram = store_all_schedule(graph).peak_bytes - 4
        plans = [method_named(name).schedule(g, ram, None, OptimiseOptions(time_limit_s=120)) for g in (graph, chain)]
        assert plans[0].energy_j == pytest.approx(plans[1].energy_j + 0.1)
