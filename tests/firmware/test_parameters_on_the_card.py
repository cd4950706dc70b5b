# SPDX-License-Identifier: Apache-2.0
"""The same network with its parameters in RAM and on the card: loss and weights agree bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.lowering import lower_for_firmware, with_parameters_on_the_card
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.parts import joined
from poet_profiles.schedule import Action, Schedule

from tests.support.firmware.card_session import CardSession
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import answers_of

SLICES_ABOVE = 2048
MODEL, BATCH, STEPS = "digits_cnn", 4, 3
WIDE = "tests.support.networks.own:sixteen_channels"
SLICED = Streaming(64, 1024, SLICES_ABOVE)
RULED = Optimizer(weight_decay=0.1, clip_value=0.01)
MOVED = Optimizer(momentum=0.9, nesterov=True, weight_decay=0.1)
BOARD = load_board("nrf52840")
Run = tuple[Schedule, list[dict[str, str]], dict[str, bytes]]


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return training_step(MODEL, BATCH)


@pytest.fixture(scope="module")
def wide() -> TrainingStep:
    return training_step(WIDE, BATCH)


@pytest.fixture(scope="module")
def runs(
    step: TrainingStep, wide: TrainingStep, host_firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    in_ram = step.graph(BOARD)
    on_card = step.graph(BOARD, layout=MemoryLayout(card_above_bytes=64))
    streamed = step.graph(
        BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=Streaming(above_bytes=64, tile_bytes=1024))
    )
    sliced = wide.graph(BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=SLICED))
    streaming = Streaming(above_bytes=64, tile_bytes=1024)
    ruled = step.graph(BOARD, optimizer=RULED, layout=MemoryLayout(card_above_bytes=64, streaming=streaming))
    sliced_ruled = wide.graph(BOARD, optimizer=RULED, layout=MemoryLayout(card_above_bytes=64, streaming=SLICED))
    results = {}
    forms: list[tuple[str, Graph, Callable[[Graph], Schedule]]] = [
        ("in RAM", in_ram, store_all_schedule),
        ("in RAM, not sliced", wide.graph(BOARD), store_all_schedule),
        ("stored", on_card, store_all_schedule),
        ("paged", on_card, everything_paged),
        ("recomputed", on_card, everything_recomputed),
        ("streamed", streamed, store_all_schedule),
        ("streamed, recomputed", streamed, everything_recomputed),
        ("sliced, paged", sliced, everything_paged),
        ("sliced, recomputed", sliced, everything_recomputed),
        ("in RAM, clip and decay", step.graph(BOARD, optimizer=RULED), store_all_schedule),
        (
            "fetched, clip and decay",
            step.graph(BOARD, optimizer=RULED, layout=MemoryLayout(card_above_bytes=64)),
            store_all_schedule,
        ),
        ("streamed, clip and decay", ruled, everything_recomputed),
        ("in RAM, not sliced, clip and decay", wide.graph(BOARD, optimizer=RULED), store_all_schedule),
        ("sliced, clip and decay", sliced_ruled, everything_paged),
        *_with_states(step, wide),
    ]
    for name, graph, make in forms:
        one, model = (wide, WIDE) if "sliced" in name else (step, MODEL)
        folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
        schedule = make(graph)
        write_headers(graph, schedule, folder, one.constants(graph))
        program = host_firmware.link(folder / "poet", "-I", str(folder))
        session = CardSession(graph, model, BATCH, STEPS)
        answers = answers_of(program, folder / "card.img", session.requests)
        results[name] = (schedule, session.steps(answers), _whole(graph, session.found(answers)))
    return results


def _with_states(step: TrainingStep, wide: TrainingStep) -> Iterator[tuple[str, Graph, Callable[[Graph], Schedule]]]:
    fetched, streaming = MemoryLayout(card_above_bytes=64), Streaming(above_bytes=64, tile_bytes=1024)
    yield "in RAM, momentum", step.graph(BOARD, optimizer=MOVED), store_all_schedule
    yield "fetched, momentum", step.graph(BOARD, optimizer=MOVED, layout=fetched), store_all_schedule
    streamed = replace(fetched, streaming=streaming, batch_on_card=False)
    yield "streamed, momentum", step.graph(BOARD, optimizer=MOVED, layout=streamed), everything_recomputed
    adam = Optimizer("adamw", weight_decay=0.1, clip_value=0.01)
    yield "in RAM, adam", step.graph(BOARD, optimizer=adam), store_all_schedule
    yield "fetched, adam", step.graph(BOARD, optimizer=adam, layout=fetched), everything_paged
    yield "streamed, adam", step.graph(BOARD, optimizer=adam, layout=streamed), everything_recomputed
    yield "in RAM, not sliced, momentum", wide.graph(BOARD, optimizer=MOVED), store_all_schedule
    sliced = replace(fetched, streaming=SLICED)
    yield "sliced, momentum", wide.graph(BOARD, optimizer=MOVED, layout=sliced), everything_paged


def _whole(graph: Graph, weights: dict[str, bytes]) -> dict[str, bytes]:
    """The network's tensors, of which the graph may have parts."""
    tensors = [tensor for tensor in (*graph.residents, *graph.kept) if tensor.id in weights]
    arrays = {tensor.id: np.frombuffer(weights[tensor.id], np.uint32).reshape(tensor.shape) for tensor in tensors}
    return {id: array.tobytes() for id, array in joined(tensors, arrays).items()}


def test_the_form_on_the_card_keeps_weights_and_batches_there(step: TrainingStep) -> None:
    graph = step.graph(BOARD, layout=MemoryLayout(card_above_bytes=64))
    assert {tensor.kind for tensor in graph.kept} == {"parameter", "input", "target"}
    assert {node.operation.op for node in graph.nodes if node.operation} >= {"fetch", "conv2d_update", "commit"}


def test_the_streaming_form_reads_weights_of_more_than_two_tiles(step: TrainingStep) -> None:
    graph = step.graph(
        BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=Streaming(above_bytes=64, tile_bytes=1024))
    )
    streaming = {node.operation.op for node in graph.nodes if node.operation and "streamed" in node.operation.op}
    assert streaming == {"streamed_linear", "streamed_linear_backward_input", "streamed_linear_update"}


@pytest.mark.parametrize(
    "name", ["stored", "paged", "recomputed", "streamed", "streamed, recomputed", "sliced, paged", "sliced, recomputed"]
)
def test_loss_and_weights_are_those_of_training_in_ram(runs: dict[str, Run], name: str) -> None:
    _, steps_in_ram, weights_in_ram = runs["in RAM, not sliced" if "sliced" in name else "in RAM"]
    schedule, steps, weights = runs[name]
    assert [one["loss"] for one in steps] == [one["loss"] for one in steps_in_ram]
    assert [one["committed"] for one in steps] == ["1", "2", "3"]
    assert weights == weights_in_ram
    for one in steps:
        assert int(one["page_ins"]) == sum(entry.do is Action.PAGE_IN for entry in schedule.steps)


@pytest.mark.parametrize("make", [everything_paged, everything_recomputed])
def test_frozen_weights_may_lie_in_flash_and_on_the_card(
    make: Callable[[Graph], Schedule], host_firmware: HostFirmware, tmp_path: Path
) -> None:
    model, batch = "finetune_cnn_small", 1
    step = training_step(model, batch)
    in_ram = lower_for_firmware(step.traced, resident_gradients=False)
    some = with_parameters_on_the_card(in_ram, 64, flash_bytes=60_000)
    assert {kept.kind for kept in some.kept} == {"parameter", "constant", "input", "target"}
    assert sum(constant.bytes for constant in some.constants) <= 60_000
    assert {tensor.id for tensor in (*some.constants, *some.kept)} > {constant.id for constant in in_ram.constants}
    found = []
    for number, (graph, schedule) in enumerate(((in_ram, store_all_schedule(in_ram)), (some, make(some)))):
        folder = tmp_path / str(number)
        constants = step.constants(graph)
        write_headers(graph, schedule, folder, constants)
        program = host_firmware.link(folder / "poet", "-I", str(folder))
        session = CardSession(graph, model, batch, STEPS, constants)
        answers = answers_of(program, folder / "card.img", session.requests)
        found.append(([one["loss"] for one in session.steps(answers)], session.found(answers)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((name, rule) for name in ("fetched", "streamed") for rule in ("clip and decay", "momentum", "adam")),
        *(("sliced", rule) for rule in ("clip and decay", "momentum")),
    ],
)
def test_other_descents_have_the_bits_of_those_in_ram(runs: dict[str, Run], name: str, rule: str) -> None:
    in_ram = "in RAM, not sliced" if name == "sliced" else "in RAM"
    _, steps_in_ram, weights_in_ram = runs[f"{in_ram}, {rule}"]
    _, steps, weights = runs[f"{name}, {rule}"]
    assert [one["loss"] for one in steps] == [one["loss"] for one in steps_in_ram]
    assert weights == weights_in_ram != runs[in_ram][2]


def test_the_sliced_form_has_weights_in_parts(wide: TrainingStep) -> None:
    graph = wide.graph(BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=SLICED))
    assert any(tensor.part for tensor in graph.kept)
    operators = {node.operation.op for node in graph.nodes if node.operation}
    assert operators >= {"conv2d_accumulate", "conv2d_backward_input_accumulate"}


def test_the_schedules_differ(runs: dict[str, Run]) -> None:
    stored, paged, recomputed = (runs[name][0] for name in ("stored", "paged", "recomputed"))
    assert any(entry.do is Action.PAGE_IN for entry in paged.steps)
    fetches = [entry.target for entry in recomputed.steps if entry.do is Action.COMPUTE]
    assert len(fetches) > len(set(fetches))
    assert paged.peak_bytes < stored.peak_bytes
