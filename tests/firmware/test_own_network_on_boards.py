# SPDX-License-Identifier: Apache-2.0
"""A network of layers that no built-in model has: three steps on both emulated boards, masks drawn again on one."""

from __future__ import annotations

import os
from collections.abc import Callable
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
from poet_planner.torch_reference.training_data import reference_run, training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule

from tests.support.firmware.crude_schedules import everything_recomputed
from tests.support.firmware.training_session import RATE, TrainingSession

MODEL, BATCH, STEPS = "tests.support.networks.own:many_layers", 4, 3


@pytest.mark.parametrize(
    ("name", "make"),
    # The tables of `everything_recomputed` are too large for 32 KB.
    [("nrf52840", everything_recomputed), ("mkr1000", store_all_schedule)],
)
def test_gradients_of_the_third_step_are_pytorchs(
    name: str, make: Callable[[Graph], Schedule], builds: Path, tmp_path: Path
) -> None:
    board = load_board(name)
    step = training_step(MODEL, BATCH)
    graph = step.graph(board)
    session = TrainingSession(graph, MODEL, BATCH, STEPS)
    schedule = make(graph)
    masks = [node.id for node in graph.nodes if node.operation and node.operation.op == "bernoulli"]
    computed = [step.target for step in schedule.steps if step.do is Action.COMPUTE]
    assert len(masks) == 2
    assert all(computed.count(mask) > 1 for mask in masks) == (make is everything_recomputed)

    write_headers(graph, schedule, tmp_path, step.constants(graph))
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        image = build(board, tmp_path)
    with open_emulated_board(board, image, tmp_path / "board.img") as emulated:
        link = Link(emulated.serial, name)
        answers = [link.request(request, 60.0).values for request in session.requests]
    tensors = session.tensors(answers)

    write_arrays(training_data(MODEL, STEPS, 0, BATCH), tmp_path / "data.npz")
    expected = reference_run(MODEL, tmp_path / "data.npz", RATE)
    for id, steps in expected.items():
        found, exact = np.frombuffer(tensors[id], np.float32), steps[-1].ravel()
        # In front of a batch norm a bias has a gradient of zero, and what is there is rounding.
        largest = max(np.abs(exact).max(), np.abs(expected["0.weight.grad"]).max() * (id == "0.bias.grad"))
        assert np.abs(found - exact).max() <= 1e-5 * largest, id
