# SPDX-License-Identifier: Apache-2.0
"""A plan's calls, replayed word by word against graph and schedule."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_planner.graph.layout import GRADIENTS_EARLY, MemoryLayout
from poet_planner.graph.optimizer import PLAIN, Method, Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import OPERATORS, OPTIMIZERS
from poet_profiles.graph import Graph, Operation, Resident
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import Call, calls_of

from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.graphs.early import random_training
from tests.support.graphs.kept_graphs import frozen_step, kept_step, table_step
from tests.support.graphs.micro_batches import random_parts
from tests.support.graphs.one_step import named
from tests.support.graphs.replayed_calls import faults_of
from tests.support.graphs.taking_over import random_in_place_graph

Make = Callable[[Graph], Schedule]
SCHEDULES: list[Make] = [store_all_schedule, everything_paged, everything_recomputed]
BOARD = load_board("nrf52840")
ADAM = Optimizer(Method.ADAM)


def with_operators(graph: Graph) -> Graph:
    """The same graph with an operation of the vocabulary a node; the words do not depend on which."""
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    nodes = []
    for node in graph.nodes:
        known = node.operation is not None and node.operation.op in OPERATORS
        operands = tuple(id for id in node.inputs if sizes[id])
        results = tuple(value.id for value in node.values if value.bytes)
        operation = node.operation if known else Operation(*named("add", 1), operands, results) if results else None
        nodes.append(replace(node, operation=operation))
    return replace(graph, nodes=tuple(nodes))


def random_graph(seed: int) -> Graph:
    """Of any kind."""
    make = random.Random(seed).choice((random_in_place_graph, random_parts, random_training))
    return with_operators(make(seed))


@given(st.integers(0, 10**6), st.sampled_from(SCHEDULES))
def test_each_read_meets_what_was_written_last(seed: int, make: Make) -> None:
    graph = random_graph(seed)
    schedule = make(graph)
    assert faults_of(graph, schedule, calls_of(graph, schedule)) == []


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.parametrize("graph", [kept_step(), frozen_step(), table_step()], ids=lambda graph: graph.name)
def test_tensors_on_the_card(graph: Graph, make: Make) -> None:
    schedule = make(graph)
    calls = calls_of(graph, schedule)
    assert faults_of(graph, schedule, calls) == []
    assert any(word % 4 == 2 for call in calls for word in call.words)


FORMS: dict[str, Callable[[], Graph]] = {
    "in RAM": lambda: training_step("digits_cnn", 4).graph(BOARD),
    "early": lambda: training_step("digits_cnn", 4).graph(BOARD, layout=GRADIENTS_EARLY),
    "adam": lambda: training_step("digits_cnn_small", 4).graph(BOARD, optimizer=ADAM),
    "momentum": lambda: training_step("digits_cnn_small", 4).graph(BOARD, optimizer=Optimizer(momentum=0.9)),
    "streamed": lambda: training_step("digits_cnn", 4).graph(
        BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=Streaming(above_bytes=64, tile_bytes=1024))
    ),
    "frozen": lambda: training_step("finetune_cnn_small", 1).graph(BOARD),
}


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.parametrize("form", FORMS)
def test_real_networks(form: str, make: Make) -> None:
    graph = FORMS[form]()
    schedule = make(graph)
    calls = calls_of(graph, schedule)
    assert faults_of(graph, schedule, calls) == []
    named = [number for call in calls for number in call.steps]
    done = [number for number, step in enumerate(schedule.steps) if step.do is not Action.FREE]
    nodes = {node.id: node for node in graph.nodes}
    assert named == [
        number
        for number in done
        if schedule.steps[number].do is not Action.COMPUTE or nodes[schedule.steps[number].target].operation
    ]


@pytest.mark.parametrize("optimizer", [PLAIN, ADAM, Optimizer(momentum=0.9), Optimizer(weight_decay=0.01)])
def test_updates_side_by_side_are_one(optimizer: Optimizer) -> None:
    graph = training_step("digits_cnn_small", 4).graph(BOARD, optimizer=optimizer)
    calls = calls_of(graph, store_all_schedule(graph))
    updates = [call for call in calls if call.op in OPTIMIZERS]
    parameters = [one for one in graph.residents if one.kind == "parameter"]
    assert sum(call.params[0] for call in updates) == sum(one.bytes for one in parameters) // 4
    assert len(updates) < len(parameters)


def faulty(calls: tuple[Call, ...], rng: random.Random) -> tuple[Call, ...]:
    """The same with one input four further, or one flag turned."""
    number = rng.randrange(len(calls))
    call = calls[number]
    kind = rng.choice(("waits", "changes", "inputs")) if call.inputs else rng.choice(("waits", "changes"))
    if kind == "waits":
        other = replace(call, waits=not call.waits)
    elif kind == "changes":
        other = replace(call, changes=not call.changes)
    else:
        place = rng.randrange(len(call.inputs))
        other = replace(call, inputs=tuple(word + 4 * (i == place) for i, word in enumerate(call.inputs)))
    return (*calls[:number], other, *calls[number + 1 :])


@given(st.integers(0, 10**6), st.sampled_from(SCHEDULES))
def test_the_replay_finds_a_wrong_word_and_a_wrong_flag(seed: int, make: Make) -> None:
    graph = random_graph(seed)
    schedule = make(graph)
    calls = calls_of(graph, schedule)
    assert faults_of(graph, schedule, faulty(calls, random.Random(seed)))


def test_a_resident_that_is_overwritten_is_found() -> None:
    graph = with_operators(random_training(0))
    outside = replace(graph, residents=(*graph.residents, Resident("spare", "state", 8, graph.resident_bytes)))
    schedule = store_all_schedule(graph)
    assert any("spare" in fault for fault in faults_of(outside, schedule, calls_of(graph, schedule)))
