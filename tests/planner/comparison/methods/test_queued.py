# SPDX-License-Identifier: Apache-2.0
"""When transfers start beside the computing: by hand, and by the verifier."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.offloads import prefetched
from poet_planner.comparison.methods.queued import QueueingDecoder
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.search.decode import Decoded, decode
from poet_profiles.graph import Graph, Node, PageCost, Value

from tests.support.levels import examples

PAGE = PageCost(out_time_s=2.0, out_energy_j=1.0, in_time_s=2.0, in_energy_j=1.0)


def chain(dma: bool = True) -> Graph:
    """Two values of 2 s on the bus, made in 1 s each, three nodes of 1 s, and the two read again."""
    forward = [Node(name, 1.0, 1.0, (Value(name, 4, PAGE),), inputs) for name, inputs in (("a", ()), ("b", ("a",)))]
    between = [
        Node(name, 1.0, 1.0, (Value(name, 4),), (before,)) for before, name in (("b", "c"), ("c", "d"), ("d", "e"))
    ]
    backward = [
        Node("gb", 1.0, 1.0, (Value("gb", 4),), ("b", "e"), backward=True),
        Node("ga", 1.0, 1.0, (Value("ga", 4),), ("a", "gb"), backward=True),
    ]
    return Graph("g", (*forward, *between, *backward), dma=dma)


# Each page-in just before its use; values are numbered like the nodes, page-ins from 7 on.
ORDER = [0, 1, 2, 3, 4, 8, 5, 7, 6]


def instance_of(graph: Graph, ram_bytes: int = 100) -> Instance:
    return Instance(graph, ram_bytes, None, OptimiseOptions())


def replayed_s(graph: Graph, decoded: Decoded) -> float:
    """By the verifier, which finds no fault but in the figures of another schedule."""
    report = verify(graph, replace(store_all_schedule(graph), steps=decoded.steps), check_offsets=False)
    assert all("stated" in fault or "exceeds" in fault for fault in report.faults), report.faults
    return report.time_s


def test_a_page_out_that_waits_for_the_bus_does_not_hold_the_cpu() -> None:
    """b's page-out comes to a bus that is busy until 3 s, while the CPU is at 2 s."""
    graph = chain()
    instance = instance_of(graph)
    found = instance.evaluated(ORDER)
    assert found is not None
    at_once = decode(graph, instance.problem, found.events)
    queued = QueueingDecoder(graph, instance.problem, found.events).decoded()
    assert (replayed_s(graph, at_once), replayed_s(graph, queued)) == (12.0, 11.0)
    assert (at_once.time_s, queued.time_s) == (12.0, 11.0)
    assert instance.steps_of(found) == queued


def test_page_ins_are_early_enough_where_they_have_the_ram() -> None:
    """The bus begins with a, which is read at 6 s, at 4 s, and should with b at 2 s; but c needs b until 3 s."""
    instance = instance_of(chain())
    early = prefetched(instance, ORDER, 100)
    assert early == [0, 1, 2, 8, 3, 7, 4, 5, 6]
    found = instance.evaluated(ORDER)
    assert found is not None
    tight = instance.evaluated(prefetched(instance, ORDER, found.peak))
    assert tight is not None
    assert tight.peak == found.peak


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.floats(0.1, 5.0), min_size=4, max_size=4), st.integers(8, 40), st.booleans())
def test_the_steps_are_sound_and_take_what_the_verifier_says(times: list[float], ram: int, early: bool) -> None:
    graph = chain()
    page = PageCost(times[0], 1.0, times[1], 1.0)
    graph = replace(
        graph,
        nodes=tuple(
            replace(n, time_s=times[2 + k % 2], values=tuple(replace(v, page=v.page and page) for v in n.values))
            for k, n in enumerate(graph.nodes)
        ),
    )
    instance = instance_of(graph, ram)
    order = prefetched(instance, ORDER, ram) if early else ORDER
    found = instance.evaluated(order)
    assert found is not None
    queued = QueueingDecoder(graph, instance.problem, found.events).decoded()
    assert replayed_s(graph, queued) == pytest.approx(queued.time_s)
    if found.peak <= ram:
        assert queued.peak <= ram
    assert instance.steps_of(found).time_s <= decode(graph, instance.problem, found.events).time_s
