# SPDX-License-Identifier: Apache-2.0
"""Networks of layers that no built-in model has: some steps on emulated boards, masks drawn again on one."""

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

from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import RATE, TrainingSession

NETWORKS, BATCH = "tests.support.networks.own", 4


def assert_trains_as_pytorch(
    name: str, model: str, steps: int, make: Callable[[Graph], Schedule], builds: Path, folder: Path
) -> tuple[Graph, Schedule]:
    """The gradients of the last step."""
    board, step = load_board(name), training_step(model, BATCH)
    graph = step.graph(board)
    session = TrainingSession(graph, model, BATCH, steps)
    schedule = make(graph)
    write_headers(graph, schedule, folder, step.constants(graph))
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        image = build(board, folder)
    with open_emulated_board(board, image, folder / "board.img") as emulated:
        link = Link(emulated.serial, name)
        answers = [link.request(request, 60.0).values for request in session.requests]
    tensors = session.tensors(answers)

    write_arrays(training_data(model, steps, 0, BATCH), folder / "data.npz")
    expected = reference_run(model, folder / "data.npz", RATE)
    for id, each in expected.items():
        found, exact = np.frombuffer(tensors[id], np.float32), each[-1].ravel()
        # In front of a batch norm a bias has a gradient of zero, and what is there is rounding.
        zero = model.endswith("many_layers") and id == "0.bias.grad"
        largest = max(np.abs(exact).max(), np.abs(expected["0.weight.grad"]).max() if zero else 0.0)
        assert np.abs(found - exact).max() <= 1e-5 * largest, id
    return graph, schedule


@pytest.mark.parametrize(
    ("name", "make"),
    # The tables of `everything_recomputed` are too large for 32 KB.
    [("nrf52840", everything_recomputed), ("mkr1000", store_all_schedule)],
)
def test_gradients_of_the_third_step_are_pytorchs(
    name: str, make: Callable[[Graph], Schedule], builds: Path, tmp_path: Path
) -> None:
    graph, schedule = assert_trains_as_pytorch(name, f"{NETWORKS}:many_layers", 3, make, builds, tmp_path)
    masks = [node.id for node in graph.nodes if node.operation and node.operation.op == "bernoulli"]
    computed = [step.target for step in schedule.steps if step.do is Action.COMPUTE]
    assert len(masks) == 2
    assert all(computed.count(mask) > 1 for mask in masks) == (make is everything_recomputed)


@pytest.mark.parametrize("network", ["lstm", "gru"])
def test_recurrent_networks(network: str, builds: Path, tmp_path: Path) -> None:
    assert_trains_as_pytorch("nrf52840", f"{NETWORKS}:{network}", 2, everything_paged, builds, tmp_path)
