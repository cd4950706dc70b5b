# SPDX-License-Identifier: Apache-2.0
"""Networks train on both emulated boards, every activation paged, and equal the unlimited host run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from poet_harness.emulation import open_twin
from poet_harness.firmware import build
from poet_harness.protocol.link import Link
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.planning.training_graph import training_graph
from poet_planner.schedule.c_headers import write_headers
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.firmware.training_session import TrainingSession, train

STEPS = 1


def make_plan(graph: Graph, make: Callable[[Graph], Schedule], folder: Path) -> Schedule:
    schedule = make(graph)
    write_headers(graph, schedule, folder)
    return schedule


@pytest.mark.parametrize(
    ("name", "model", "batch", "resident_gradients"),
    [
        ("nrf52840", "digits_cnn_small", 4, True),
        ("nrf52840", "mlperf_ds_cnn", 1, False),  # weights and gradients together do not fit beside its activations
        ("mkr1000", "digits_cnn_small", 4, True),
    ],
)
def test_training_on_the_board_equals_unlimited_memory(
    name: str, model: str, batch: int, resident_gradients: bool, host_firmware: HostFirmware, tmp_path: Path
) -> None:
    board = load_board(name)
    graph = training_graph(model, batch, board, resident_gradients)
    session = TrainingSession(graph, model, batch, STEPS)

    make_plan(graph, store_all_schedule, tmp_path)
    card = tmp_path / "card.img"
    store_all_steps, unlimited = train(host_firmware.link(tmp_path / "poet", "-I", str(tmp_path)), card, session)

    schedule = make_plan(graph, everything_paged, tmp_path)
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(tmp_path / "pio")):
        build(board, tmp_path)
    with open_twin(board, tmp_path / "pio" / name / "firmware.elf", tmp_path / "board.img") as twin:
        link = Link(twin.serial, name)
        answers = [link.request(request, 60.0).values for request in session.requests]
        steps, tensors = session.steps(answers), session.tensors(answers)
        assert tensors == unlimited
        assert [step["loss"] for step in steps] == [step["loss"] for step in store_all_steps]
        assert [int(step["peak"]) for step in steps] == [schedule.peak_bytes] * STEPS

        link.request("commit 1")
        twin.reset()
        link.request("hello")
        assert link.request("restore").values["step"] == "1"
        restored = session.tensors([link.request(request).values for request in session.gets()])
    weights = [resident.id for resident in graph.residents if resident.kind == "parameter"]
    assert {name: restored[name] for name in weights} == {name: unlimited[name] for name in weights}
