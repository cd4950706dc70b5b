# SPDX-License-Identifier: Apache-2.0
"""The timeline that pictures and summaries show adds up to what the verifier, which shares no code with it, finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import CostTerm, energy_by_term, longest_pause_s, ram_over_time, timeline
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Node, PageCost, Uses, Value
from poet_profiles.schedule import Action, Schedule, Step

from tests.support.levels import examples

costs = st.integers(0, 20)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """A chain whose last nodes read the first ones again, as backward passes do; some use the bus."""
    count = draw(st.integers(2, 6))
    nodes = []
    for index in range(count):
        inputs = (f"n{index - 1}",) if index else ()
        if index >= count // 2 and index > 1:
            inputs = (*inputs, f"n{count - 1 - index}") if count - 1 - index < index - 1 else inputs
        page = PageCost(*(float(draw(costs)) for _ in range(4)))
        uses = draw(st.sampled_from(Uses))
        nodes.append(
            Node(
                f"n{index}",
                draw(costs),
                draw(costs),
                (Value(f"n{index}", draw(st.integers(0, 99)), page),),
                inputs,
                0 if uses is Uses.BUS else draw(costs),
                uses=uses,
            )
        )
    return Graph("chain", tuple(nodes), 4 * draw(costs), draw(st.booleans()))  # fmt: skip


def paged(graph: Graph, schedule: Schedule) -> Schedule:
    """The store-all schedule, with the first value paged out after its compute and in again before its last reader."""
    value = graph.nodes[0].values[0].id
    readers = [index for index, node in enumerate(graph.nodes) if value in node.inputs]
    if len(readers) < 2:
        return schedule
    steps = list(schedule.steps)
    offset = steps[0].offsets
    first, last = (next(i for i, s in enumerate(steps) if s.target == f"n{readers[k]}") for k in (0, -1))
    steps[last:last] = [Step(Action.PAGE_IN, value, offset)]
    steps[first + 1 : first + 1] = [Step(Action.PAGE_OUT, value), Step(Action.FREE, value)]
    return replace(schedule, steps=tuple(steps))


@settings(max_examples=examples(200), deadline=None)
@given(chains())
def test_timeline_adds_up_to_the_verifiers_replay(graph: Graph) -> None:
    schedule = paged(graph, store_all_schedule(graph))
    report = verify(graph, schedule, check_offsets=False)
    moments = timeline(graph, schedule)
    assert sum(moment.energy_j for moment in moments) == pytest.approx(report.energy_j)
    assert max(moment.end_s for moment in moments) == pytest.approx(report.time_s)
    assert max(moment.ram_bytes for moment in moments) == report.peak_bytes


@settings(max_examples=examples(200), deadline=None)
@given(chains())
def test_ram_curve_never_goes_back_in_time_and_reaches_the_peak(graph: Graph) -> None:
    schedule = paged(graph, store_all_schedule(graph))
    report = verify(graph, schedule, check_offsets=False)
    times_s, ram_bytes = ram_over_time(timeline(graph, schedule))
    assert times_s == sorted(times_s)
    assert times_s[-1] == pytest.approx(report.time_s)
    assert max(ram_bytes) == report.peak_bytes


def test_ram_curve_while_a_page_leaves_beside_a_compute() -> None:
    """By hand: 8 bytes are paged out from 1 s to 6 s, beside a compute of 2 s that needs 4 and then 8 to work in."""
    page = PageCost(5.0, 1.0, 5.0, 1.0)
    nodes = (
        Node("a", 1.0, 1.0, (Value("a", 8, page),)),
        Node("b", 2.0, 1.0, (Value("b", 4),), (), 8),
        Node("c", 1.0, 1.0, (Value("c", 16),), ("b",)),
    )
    graph = Graph("beside", nodes, 0, dma=True)
    steps = (
        *(Step(Action.COMPUTE, "a", (0,)), Step(Action.PAGE_OUT, "a"), Step(Action.COMPUTE, "b", (8,))),
        *(Step(Action.FREE, "a"), Step(Action.COMPUTE, "c", (16,)), Step(Action.FREE, "b"), Step(Action.FREE, "c")),
    )
    times_s, ram_bytes = ram_over_time(timeline(graph, replace(store_all_schedule(graph), steps=steps)))
    curve = dict(zip(times_s, ram_bytes, strict=True))
    assert curve == {0.0: 8, 1.0: 20, 3.0: 12, 6.0: 20, 7.0: 0}


@settings(max_examples=examples(100), deadline=None)
@given(chains())
def test_plain_schedule_is_sound(graph: Graph) -> None:
    assert verify(graph, store_all_schedule(graph)).faults == ()


def test_second_computation_is_a_recomputation() -> None:
    graph = Graph("g", (Node("n0", 1, 1, (Value("n0", 4),)), Node("n1", 1, 1, (Value("n1", 4),), ("n0",))))
    schedule = store_all_schedule(graph)
    again = (schedule.steps[0], Step(Action.FREE, "n0"), *schedule.steps)
    kinds = [moment.kind for moment in timeline(graph, replace(schedule, steps=again))]
    assert kinds[:3] == [CostTerm.COMPUTE, CostTerm.FREE, CostTerm.RECOMPUTE]


def test_what_is_fetched_a_second_time_is_told_apart() -> None:
    graph = Graph("g", (Node("w", 1, 1, (Value("w", 4),), uses=Uses.BUS), Node("y", 1, 1, (Value("y", 4),), ("w",))))
    schedule = store_all_schedule(graph)
    again = (schedule.steps[0], Step(Action.FREE, "w"), *schedule.steps)
    kinds = [moment.kind for moment in timeline(graph, replace(schedule, steps=again))]
    assert kinds[:3] == [CostTerm.COMPUTE, CostTerm.FREE, CostTerm.REFETCH]


def test_what_a_step_spends_on_the_card_is_told_apart() -> None:
    both = Node("y", 4.0, 8.0, (Value("y", 4),), uses=Uses.BOTH, card_time_s=1.0, card_energy_j=6.0)
    fetch = Node("w", 1.0, 2.0, (Value("w", 4),), uses=Uses.BUS, card_time_s=1.0, card_energy_j=2.0)
    graph = Graph("g", (both, fetch))
    schedule = store_all_schedule(graph)
    first, last = (next(step for step in schedule.steps if step.target == id) for id in ("y", "w"))
    steps = (first, Step(Action.FREE, "y"), first, last, Step(Action.FREE, "w"), last)
    moments = timeline(graph, replace(schedule, steps=steps))
    assert [moment.terms_j for moment in moments if moment.energy_j] == [
        {CostTerm.COMPUTE: 2.0, CostTerm.CARD: 6.0},
        {CostTerm.RECOMPUTE: 2.0, CostTerm.REFETCH: 6.0},
        {CostTerm.COMPUTE: 0.0, CostTerm.CARD: 2.0},
        {CostTerm.REFETCH: 2.0},
    ]
    spent = {term: joules for term, joules in energy_by_term(moments).items() if joules}
    assert spent == {CostTerm.COMPUTE: 2.0, CostTerm.CARD: 8.0, CostTerm.RECOMPUTE: 2.0, CostTerm.REFETCH: 8.0}
    assert [moment.spans_s for moment in moments if moment.energy_j] == [
        {CostTerm.COMPUTE: (0.0, 3.0), CostTerm.CARD: (3.0, 4.0)},
        {CostTerm.RECOMPUTE: (4.0, 7.0), CostTerm.CARD: (7.0, 8.0)},
        {CostTerm.CARD: (8.0, 9.0)},
        {CostTerm.REFETCH: (9.0, 10.0)},
    ]


@settings(max_examples=examples(200), deadline=None)
@given(chains())
def test_the_longest_pause_is_one_step_or_a_wait(graph: Graph) -> None:
    """Without DMA nothing is waited for beside the step itself; with it a wait may come before."""
    schedule = paged(graph, store_all_schedule(graph))
    moments = timeline(graph, schedule)
    longest_s = longest_pause_s(graph, schedule)
    operators_s = [node.time_s for node in graph.nodes if node.uses is not Uses.BUS]
    assert max(operators_s, default=0.0) <= longest_s + 1e-9
    assert longest_s <= max(moment.end_s for moment in moments) + 1e-9
    if not graph.dma:
        assert longest_s == pytest.approx(max(moment.end_s - moment.start_s for moment in moments))


@pytest.mark.parametrize(("dma", "pause_s"), [(False, 3.0), (True, 2.0)])
def test_a_pause_by_hand(dma: bool, pause_s: float) -> None:
    """The page takes 3 s; beside DMA the next compute hides one of them, and the free waits for two."""
    nodes = (
        Node("a", 1.0, 1.0, (Value("a", 4, PageCost(3.0, 0.0, 3.0, 0.0)),)),
        Node("b", 1.0, 1.0, (Value("b", 4),)),
        Node("c", 1.5, 1.0, (Value("c", 4),), ("b",)),
    )
    steps = (
        Step(Action.COMPUTE, "a", (0,)),
        Step(Action.PAGE_OUT, "a"),
        Step(Action.COMPUTE, "b", (4,)),
        Step(Action.FREE, "a"),
        Step(Action.COMPUTE, "c", (0,)),
    )
    graph = Graph("pauses", nodes, dma=dma)
    schedule = replace(store_all_schedule(graph), steps=steps)
    assert longest_pause_s(graph, schedule) == pause_s


def test_without_parameters_in_ram_each_step_is_a_pause() -> None:
    """As in the POET paper: no firmware runs such a graph, so it has no calls."""
    graph = prepare(Request("digits_cnn_small", "m4", parameters="excluded")).graph
    assert longest_pause_s(graph, store_all_schedule(graph)) == pytest.approx(max(node.time_s for node in graph.nodes))


def test_updates_that_are_one_call_are_one_pause() -> None:
    """All parameters lie side by side, and so do their gradients."""
    graph = training_step("digits_cnn_small", 4).graph(load_board("nrf52840"))
    updates = [node.id for node in graph.nodes if node.operation and node.operation.op == "sgd"]
    graph = replace(graph, nodes=tuple(replace(node, time_s=float(node.id in updates)) for node in graph.nodes))
    assert longest_pause_s(graph, store_all_schedule(graph)) == len(updates) > 1
