# SPDX-License-Identifier: Apache-2.0
"""Forty-three forms of networks, each two steps on the emulated Cortex-M4F, against PyTorch."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.link import Link
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.torch_reference.training_data import Arrays, reference_run, training_data, write_arrays
from poet_profiles.boards import load_board

from tests.support.firmware.training_session import RATE, TrainingSession
from tests.support.networks.forms import FORMS

BOARD = load_board("nrf52840")
BATCH, STEPS = 3, 2
TOLERANCE = 4e-6
NOTHING = 1e-5  # of the network's largest gradient: what is smaller is the rounding of something larger
# What PyTorch calls the operators for which the firmware has nothing.
LACKS: dict[str, str] = {}


@pytest.mark.parametrize("form", [make.__name__ for make in FORMS])
def test_two_steps_are_pytorchs(form: str, builds: Path, tmp_path: Path) -> None:
    model = f"tests.support.networks.forms:{form}"
    step = training_step(model, BATCH)
    graph = step.graph(BOARD)
    refused = {node.operation.op.removeprefix("aten.") for node in graph.nodes if node.refused and node.operation}
    assert " ".join(sorted(refused)) == LACKS.get(form, "")
    if refused:
        return
    schedule = store_all_schedule(graph)
    assert verify(graph, schedule).sound
    write_headers(graph, schedule, tmp_path, step.constants(graph))
    session = TrainingSession(graph, model, BATCH, STEPS)
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        image = build(BOARD, tmp_path)
    with open_emulated_board(BOARD, image, tmp_path / "board.img") as emulated:
        link = Link(emulated.serial, form)
        tensors = session.tensors([link.request(request, 60.0).values for request in session.requests])
    write_arrays(training_data(model, STEPS, 0, BATCH), tmp_path / "data.npz")
    compare(tensors, reference_run(model, tmp_path / "data.npz", RATE))


def compare(found: dict[str, bytes], expected: Arrays) -> None:
    """Loss and gradients of the last step."""
    last = {id: steps[-1].ravel() for id, steps in expected.items()}
    largest = max(np.abs(exact).max() for id, exact in last.items() if id != "loss")
    for id, exact in last.items():
        allowed = TOLERANCE * max(np.abs(exact).max(), NOTHING * largest / TOLERANCE)
        assert np.abs(np.frombuffer(found[id], np.float32) - exact).max() <= allowed, id
