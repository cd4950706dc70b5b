# SPDX-License-Identifier: Apache-2.0
"""Capuchin: pages first, and each value once; computes again by bytes saved a second."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from poet_planner.comparison.methods.capuchin import Planner
from poet_planner.comparison.methods.instance import Instance
from poet_planner.planning.costed_step import without_paging
from poet_planner.planning.method import method_named
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.schedule import Action

from tests.support.graphs.paper_graphs import paper_graph

FREE = PageCost(0.0, 0.0, 0.0, 0.0)


def instance_of(graph: Graph, ram_bytes: int, deadline_s: float | None = None) -> Instance:
    return Instance(graph, ram_bytes, deadline_s, OptimiseOptions())


def with_pages(graph: Graph, page: PageCost) -> Graph:
    nodes = (replace(node, values=tuple(replace(v, page=page) for v in node.values)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize("share", [0.75, 0.4])
def test_with_a_free_bus_it_pages_only_and_each_value_once(share: float) -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    free = with_pages(graph, FREE)
    schedule = method_named("capuchin").schedule(free, int(share * store_all.peak_bytes), None, OptimiseOptions())
    assert verify(free, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(store_all.energy_j)
    moves = Counter((step.do, step.target) for step in schedule.steps if step.do in (Action.PAGE_IN, Action.PAGE_OUT))
    assert set(moves.values()) == {1}
    assert {id for do, id in moves if do is Action.PAGE_IN} == {id for do, id in moves if do is Action.PAGE_OUT}


def test_without_storage_it_computes_again_what_saves_the_most_bytes_a_second() -> None:
    """a saves 8 bytes in 1 s, b 4 bytes in 4 s, c 4 bytes in 1 s; a then costs b more, of which it is made."""
    nodes = (
        Node("b", 4.0, 4.0, (Value("b", 4),)),
        Node("a", 1.0, 1.0, (Value("a", 8),), ("b",)),
        Node("c", 1.0, 1.0, (Value("c", 4),), ("b",)),
        Node("end", 1.0, 1.0, (Value("end", 4),), ("c",)),
        Node("gc", 1.0, 1.0, (Value("gc", 4),), ("c", "end"), backward=True),
        Node("ga", 1.0, 1.0, (Value("ga", 4),), ("a", "gc"), backward=True),
        Node("gb", 1.0, 1.0, (Value("gb", 4),), ("b", "ga"), backward=True),
    )
    graph = Graph("g", nodes)
    chosen = []
    # In ever less RAM, until b would have to be computed again for itself.
    for ram in (20, 16):
        instance = instance_of(graph, ram)
        planner = Planner(instance, hidden_only=False)
        assert planner.order(ram) is not None
        chosen.append({nodes[instance.producer[v]].id for v in planner.recomputed})
    assert chosen[0] <= chosen[1]
    assert chosen[0] == {"a"}


def test_on_a_board_without_storage_it_never_pages() -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    serial = without_paging(graph)
    schedule = method_named("capuchin").schedule(serial, int(0.6 * store_all.peak_bytes), None, OptimiseOptions())
    assert verify(serial, schedule).faults == ()
    assert {step.do for step in schedule.steps} == {Action.COMPUTE, Action.FREE}
    assert schedule.energy_j > store_all.energy_j


def test_slow_pages_are_left_out_where_only_hidden_ones_count_or_time_is_short() -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    slow = with_pages(graph, PageCost(store_all.time_s, 0.0, store_all.time_s, 0.0))
    ram = int(0.75 * store_all.peak_bytes)
    pages = []
    for name, deadline_s in (("capuchin", None), ("capuchin_hidden", None), ("capuchin", 1.5 * store_all.time_s)):
        schedule = method_named(name).schedule(slow, ram, deadline_s, OptimiseOptions())
        assert verify(slow, schedule).faults == ()
        pages.append(sum(step.do is Action.PAGE_IN for step in schedule.steps))
    assert pages[0] > 0
    assert pages[1:] == [0, 0]
