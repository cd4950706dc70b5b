# SPDX-License-Identifier: Apache-2.0
"""Channels and rows in tiles on the emulated Cortex-M4F have the bits of the whole step."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import torch
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.link import Link
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import PLAIN
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.planner.lowering.tiles.test_regions import Attention, Block
from tests.support.firmware.training_session import TrainingSession

BOARD = load_board("nrf52840")


class Both(nn.Module):
    """An inverted residual, and attention over its places."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.attention = Block(8, 24, 8, 1, False), Attention(8, 2, False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(self.block(x).flatten(2).transpose(1, 2))
        return y


def test_tensors_have_the_bits_of_the_whole_step(builds: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model("both", Both(), (torch.randn(1, 8, 6, 7),), (torch.tensor([1]),), cross_entropy)
    step = TrainingStep(model)
    data = {id: tensor.detach().numpy().copy() for id, tensor in model.module.state_dict().items()}
    data |= {"input": model.inputs[0][None].numpy(), "target": model.targets[0][None].numpy().astype("i4")}
    found, operators = [], set()
    for tiles in (1, 5):
        graph = step.graph(BOARD, PLAIN, MemoryLayout(tiles=tiles))
        operators |= {node.operation.op for node in graph.nodes if node.operation}
        schedule = store_all_schedule(graph)
        assert verify(graph, schedule).sound
        write_headers(graph, schedule, tmp_path, step.constants(graph))
        session = TrainingSession(graph, "", 0, 1, data)
        with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
            image = build(BOARD, tmp_path)
        with open_emulated_board(BOARD, image, tmp_path / "board.img") as emulated:
            link = Link(emulated.serial, "both")
            found.append(session.tensors([link.request(request, 60.0).values for request in session.requests]))
    assert {"shift", "conv2d_accumulate", "matmul_accumulate"} <= operators
    assert found[0] == found[1]
