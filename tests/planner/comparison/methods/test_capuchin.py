# SPDX-License-Identifier: Apache-2.0
"""Capuchin: the cheaper of paging and recomputation for each value; page first, by bytes saved a second."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from poet_planner.comparison.methods.capuchin import Choice, Planner
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.registry import method_named
from poet_planner.planning.costed_step import without_paging
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


NAMES = ("capuchin", "capuchin_energy", "capuchin_page_first")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.75, 0.4])
def test_with_a_free_bus_it_pages_only_and_each_value_once(share: float, name: str) -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    free = with_pages(graph, FREE)
    schedule = method_named(name).schedule(free, int(share * store_all.peak_bytes), None, OptimiseOptions())
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
        planner = Planner(instance, Choice.PAGE_FIRST)
        assert planner.order(ram) is not None
        chosen.append({nodes[instance.producer[v]].id for v in planner.recomputed})
    assert chosen[0] <= chosen[1]
    assert chosen[0] == {"a"}


@pytest.mark.parametrize("name", NAMES)
def test_on_a_board_without_storage_it_never_pages(name: str) -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    serial = without_paging(graph)
    schedule = method_named(name).schedule(serial, int(0.6 * store_all.peak_bytes), None, OptimiseOptions())
    assert verify(serial, schedule).faults == ()
    assert {step.do for step in schedule.steps} == {Action.COMPUTE, Action.FREE}
    assert schedule.energy_j > store_all.energy_j


def test_page_first_leaves_slow_pages_out_where_time_is_short_and_the_choice_by_seconds_anyhow() -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    slow = with_pages(graph, PageCost(store_all.time_s, 0.0, store_all.time_s, 0.0))
    ram, late_s = int(0.75 * store_all.peak_bytes), 1.5 * store_all.time_s
    pages = []
    for name, deadline_s in (("capuchin_page_first", None), ("capuchin_page_first", late_s), ("capuchin", None)):
        schedule = method_named(name).schedule(slow, ram, deadline_s, OptimiseOptions())
        assert verify(slow, schedule).faults == ()
        pages.append(sum(step.do is Action.PAGE_IN for step in schedule.steps))
    assert pages[0] > 0
    assert pages[1:] == [0, 0]


@pytest.mark.parametrize(("name", "overhead"), [("capuchin", 0.125), ("capuchin_energy", 0.246)])
def test_the_choice_is_cheaper_than_paging_first(name: str, overhead: float) -> None:
    """ResNet-18 on the m4 in half its RAM: what another program of these choices found."""
    graph, store_all = paper_graph("resnet18_cifar.m4")
    ram = store_all.peak_bytes // 2
    chosen, page_first = (
        method_named(one).schedule(graph, ram, None, OptimiseOptions(time_limit_s=120)).energy_j / store_all.energy_j
        - 1
        for one in (name, "capuchin_page_first")
    )
    assert chosen == pytest.approx(overhead, abs=0.0005)
    assert page_first == pytest.approx(0.339, abs=0.0005)


@pytest.mark.parametrize("dma", [False, True])
@pytest.mark.parametrize("choice", [Choice.SECONDS, Choice.JOULES])
def test_each_value_leaves_by_the_cheaper_way_when_it_is_chosen(choice: Choice, dma: bool) -> None:
    """Costs are read off the graph: transfers, less the gap that hides them with DMA; or computes."""
    graph, store_all = paper_graph("resnet18_cifar.m4", dma)
    ram = store_all.peak_bytes // 2
    planner = Planner(instance_of(graph, ram), choice)
    assert planner.order(ram) is not None
    node_of = {value.id: node for node in graph.nodes for value in node.values}
    ids = [value.id for node in graph.nodes for value in node.values]
    left = sorted(planner.swapped | planner.recomputed, key=lambda v: -planner.gaps[v].free_s)
    again: set[str] = set()
    for v in left:
        made_again, open_ids = set(), [ids[v]]
        while open_ids:
            node = node_of[open_ids.pop()]
            if node.id not in made_again:
                made_again.add(node.id)
                open_ids += [id for id in node.inputs if id in again]
        page = next(value.page for value in node_of[ids[v]].values if value.id == ids[v])
        assert page is not None
        nodes = [node for node in graph.nodes if node.id in made_again]
        if choice is Choice.JOULES:
            swap, compute = page.in_energy_j + page.out_energy_j, sum(node.energy_j for node in nodes)
        else:
            hidden = planner.gaps[v].free_s + page.in_time_s + page.out_time_s if dma else 0.0
            swap, compute = max(0.0, page.in_time_s + page.out_time_s - hidden), sum(node.time_s for node in nodes)
        assert (v in planner.swapped) == (swap <= compute)
        again |= {ids[v]} if v in planner.recomputed else set()
    assert left and (planner.recomputed or dma)
