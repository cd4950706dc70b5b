# SPDX-License-Identifier: Apache-2.0
"""Inferences between the steps of a training whose parameters lie on the card: scores and training have RAM's bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.errors import FaultError, UserError
from poet_profiles.graph.file import document_of_graph, graph_from_document
from poet_profiles.graph.kept import check_kept
from poet_profiles.graph.validation import check_graph
from poet_profiles.plan_folder.beside import Inference

from tests.firmware.test_constants_on_the_card import inferring
from tests.support.firmware.card_session import CardSession
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.training_session import answers_of

MODEL, BATCH, STEPS = "digits_cnn", 4, 3
WIDE = "tests.support.networks.own:sixteen_channels"
BOARD = load_board("nrf52840")
TILES = Streaming(above_bytes=64, tile_bytes=1024)


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return training_step(MODEL, BATCH)


def trained(
    step: TrainingStep, firmware: HostFirmware, folder: Path, above_bytes: int | None, streaming: Streaming
) -> tuple[list[str], dict[str, bytes], list[str]]:
    """Losses, weights, and the scores before each step and after the last."""
    graph = step.graph(BOARD, layout=MemoryLayout(card_above_bytes=above_bytes, streaming=streaming))
    lowered = step.inference(graph, streaming)
    inference = Inference(lowered.graph, store_all_schedule(lowered.graph), lowered.data)
    assert verify(inference.graph, inference.schedule).sound
    write_headers(graph, store_all_schedule(graph), folder, step.constants(graph), inference)
    program = firmware.link(folder / "poet", "-I", str(folder))
    session = CardSession(graph, MODEL, BATCH, STEPS)
    requests: list[str] = []
    for request in session.requests:
        if request.startswith("step") or (request in session.gets and session.gets[0] == request):
            requests += inferring(graph)
        requests.append(request)
    session.requests = requests
    answers = answers_of(program, folder / "card.img", session.requests)
    scores = [answer["scores"] for answer in answers if "scores" in answer]
    return [one["loss"] for one in session.steps(answers)], session.found(answers), scores


def test_scores_and_training_are_those_of_parameters_in_ram(
    step: TrainingStep, host_firmware: HostFirmware, tmp_path: Path
) -> None:
    found = []
    forms: list[tuple[int | None, Streaming]] = [(None, FETCHED_WHOLE), (64, FETCHED_WHOLE), (64, TILES)]
    for number, (above_bytes, streaming) in enumerate(forms):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(trained(step, host_firmware, folder, above_bytes, streaming))
    in_ram, fetched, streamed = found
    assert fetched == in_ram
    assert streamed == in_ram
    assert len({*in_ram[2]}) == STEPS + 1  # each step has changed the weights that the next inference reads


def test_it_reads_the_trainings_tensors_and_writes_none(step: TrainingStep) -> None:
    training = step.graph(BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=TILES))
    graph = step.inference(training, TILES).graph
    check_graph(graph)
    assert graph_from_document(document_of_graph(graph)) == graph
    assert graph.kept == training.kept and graph.residents[: len(training.residents)] == training.residents
    operations = [node.operation for node in graph.nodes if node.operation]
    kept = {tensor.id for tensor in graph.kept}
    assert {id for one in operations for id in one.operands} >= {
        tensor.id for tensor in graph.kept if tensor.kind == "parameter"
    }
    assert not any(kept.intersection(one.results) for one in operations)
    update = next(node for node in training.nodes if node.operation and kept.intersection(node.operation.results))
    with pytest.raises(FaultError, match=r"no node may write a parameter of an inference, but 1 do"):
        check_kept(replace(graph, nodes=(*graph.nodes, update)))


def test_parameters_in_parts_have_none() -> None:
    step = training_step(WIDE, BATCH)
    sliced = Streaming(64, 1024, 2048)
    training = step.graph(BOARD, layout=MemoryLayout(card_above_bytes=64, streaming=sliced))
    with pytest.raises(UserError, match="no inference reads the parts of parameters"):
        step.inference(training, sliced)
