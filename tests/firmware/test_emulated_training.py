# SPDX-License-Identifier: Apache-2.0
"""Networks train on both emulated boards, every activation paged, and equal the unlimited host run.

Before that they infer, every activation paged, too: with the bits of the host, whose scores are PyTorch's. What the
image holds of a plan is what the planner counts against the board's flash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from elftools.elf.elffile import ELFFile
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.link import Link
from poet_planner import models
from poet_planner.graph.layout import GRADIENTS_PAGED, MemoryLayout
from poet_planner.graph.optimizer import PLAIN, Method, Optimizer
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.schedule.c_headers import table_bytes, write_headers
from poet_planner.schedule.flash import room_in_flash
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import reference_run, training_data, write_arrays
from poet_profiles.boards import Board, load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.plan_folder.beside import Inference, ram_bytes
from poet_profiles.schedule import Schedule

from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.firmware.training_session import RATE, TrainingSession, answers_of

STEPS = 1


def make_plan(
    step: TrainingStep, graph: Graph, make: Callable[[Graph], Schedule], folder: Path
) -> tuple[Schedule, Inference]:
    schedule, lowered = make(graph), step.inference(graph)
    inference = Inference(lowered.graph, make(lowered.graph), lowered.data)
    write_headers(graph, schedule, folder, step.constants(graph), inference)
    return schedule, inference


def inferring(session: TrainingSession, graph: Graph, model: str, batch: int) -> list[str]:
    """Requests for an inference on the first sample, with the initial weights, before the training."""
    begin = next(place for place, request in enumerate(session.requests) if f"put {input_of(graph)} " in request)
    sample = training_data(model, 1, 0, batch)["input"][0][:1].tobytes()
    index = len(graph.residents)
    puts = [f"put {index} {at} {sample[at : at + 128].hex()}" for at in range(0, len(sample), 128)]
    return [*session.requests[:begin], *puts, "infer", *session.requests[begin:]]


def input_of(graph: Graph) -> int:
    return next(place for place, resident in enumerate(graph.residents) if resident.kind == "input")


def scores_of(answers: Sequence[dict[str, str]]) -> bytes:
    (scores,) = [answer["scores"] for answer in answers if "scores" in answer]
    return bytes.fromhex(scores)


def check_scores(scores: bytes, model: str, batch: int, within: float) -> None:
    """PyTorch's, in evaluation mode, with the weights that the model begins with."""
    module = models.load(model, batch).module.eval()
    sample = torch.from_numpy(training_data(model, 1, 0, batch)["input"][0][:1])
    with torch.no_grad():
        expected = module(sample).numpy()
    found = np.frombuffer(scores, "<f4")
    assert np.abs(found - expected.ravel()).max() <= within * max(1.0, np.abs(expected).max())


def check_flash(board: Board, image: Path, graph: Graph, schedule: Schedule, inference: Inference) -> None:
    """The plan's part of an image is what the planner counts; the rest fits what the board's file reserves."""
    with image.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab").iter_symbols()
        built = {one.name: one["st_size"] for one in symbols if one.name.startswith("poet_built_")}
        loaded = [one for one in elf.iter_segments() if one["p_type"] == "PT_LOAD" and one["p_filesz"]]
        start = min(one["p_paddr"] for one in loaded)
        end = max(one["p_paddr"] + one["p_filesz"] for one in loaded)
    del built["poet_built_in"]
    assert built.pop("poet_built_constant_words", 0) == constant_bytes(graph)
    tables = table_bytes(graph, schedule, inference)
    assert sum(-(-size // 4) * 4 for size in built.values()) == tables
    below = start  # a bootloader's part
    room = room_in_flash(graph, board)
    assert room is not None
    assert below + end - start - constant_bytes(graph) - tables <= board.flash_bytes - room


def test_what_an_inference_takes_beside_training() -> None:
    """Of DS-CNN at most 2 KB of flash for tables, and no RAM."""
    step = training_step("mlperf_ds_cnn", 1)
    graph = step.graph(load_board("nrf52840"), layout=GRADIENTS_PAGED)
    schedule, lowered = everything_paged(graph), step.inference(graph).graph
    inference = Inference(lowered, store_all_schedule(lowered))
    assert ram_bytes(graph, schedule, inference) == graph.resident_bytes + schedule.arena_bytes
    assert table_bytes(graph, schedule, inference) - table_bytes(graph, schedule) <= 2048


@pytest.mark.parametrize(
    ("name", "model", "batch", "resident_gradients", "optimizer", "calibration"),
    [
        ("nrf52840", "digits_cnn_small", 4, True, Optimizer(Method.ADAMW, weight_decay=0.01), None),
        (
            "nrf52840",
            "mlperf_ds_cnn",
            1,
            False,
            PLAIN,
            None,
        ),  # weights and gradients together do not fit beside its activations
        ("mkr1000", "digits_cnn_small", 1, True, Optimizer(Method.ADAM, weight_decay=0.1, clip_value=0.05), None),
        ("nrf52840", "finetune_cnn", 2, True, PLAIN, None),
        ("mkr1000", "finetune_cnn_small", 1, True, Optimizer(momentum=0.9, nesterov=True), None),
        ("mkr1000", "tests.support.networks.quantised:of_finetune_cnn_small", 2, True, PLAIN, None),
        ("nrf52840", "tests.support.networks.quantised:of_branches", 2, True, PLAIN, None),
        ("nrf52840", "finetune_cnn_small", 4, True, Optimizer(momentum=0.9), Calibration()),
        ("mkr1000", "finetune_cnn", 2, True, PLAIN, Calibration()),  # its frozen weights in f32 are beyond the flash
    ],
)
def test_training_on_the_board_equals_unlimited_memory(
    name: str,
    model: str,
    batch: int,
    resident_gradients: bool,
    optimizer: Optimizer,
    calibration: Calibration | None,
    host_firmware: HostFirmware,
    builds: Path,
    tmp_path: Path,
) -> None:
    board = load_board(name)
    step = training_step(model, batch, None, calibration)
    graph = step.graph(board, optimizer, MemoryLayout(resident_gradients=resident_gradients))
    session = TrainingSession(graph, model, batch, STEPS)

    session.requests = inferring(session, graph, model, batch)
    make_plan(step, graph, store_all_schedule, tmp_path)
    answers = answers_of(
        host_firmware.link(tmp_path / "poet", "-I", str(tmp_path)), tmp_path / "card.img", session.requests
    )
    store_all_steps, unlimited, scores = session.steps(answers), session.tensors(answers), scores_of(answers)
    check_scores(scores, model, batch, 0.1 if calibration or "quantised" in model else 1e-5)

    schedule, inference = make_plan(step, graph, everything_paged, tmp_path)
    own_bytes = inference.graph.resident_bytes - graph.resident_bytes  # sample and scores
    assert inference.ram_bytes - own_bytes <= graph.resident_bytes + schedule.arena_bytes
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        image = build(board, tmp_path)
    check_flash(board, image, graph, schedule, inference)
    with open_emulated_board(board, image, tmp_path / "board.img") as emulated:
        link = Link(emulated.serial, name)
        answers = [link.request(request, 60.0).values for request in session.requests]
        steps, tensors = session.steps(answers), session.tensors(answers)
        assert tensors == unlimited
        assert scores_of(answers) == scores
        assert [step["loss"] for step in steps] == [step["loss"] for step in store_all_steps]

        link.request("commit 1")
        emulated.reset()
        link.request("hello")
        assert link.request("restore").values["step"] == "1"
        restored = session.tensors([link.request(request).values for request in session.gets()])
    if graph.constants:
        data = tmp_path / "data.npz"
        write_arrays(training_data(model, STEPS, 0, batch), data)
        for id, (gradient, *_) in reference_run(model, data, RATE, calibration=calibration).items():
            found = np.frombuffer(tensors[id], np.float32)
            assert np.abs(found - gradient.ravel()).max() <= 1e-5 * np.abs(gradient).max(), id
    weights = [resident.id for resident in graph.residents if resident.kind in ("parameter", "state")]
    assert {name: restored[name] for name in weights} == {name: unlimited[name] for name in weights}
