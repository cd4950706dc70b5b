# SPDX-License-Identifier: Apache-2.0
"""Bands and tiles on the emulated Cortex-M4F have the bits of the whole step."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import torch
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.link import Link
from poet_planner.graph.layout import Bands, MemoryLayout
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


class All(nn.Module):
    """A convolution by rows, an inverted residual by channels, attention by rows of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.block, self.attention = Block(8, 24, 8, 1, False), Attention(8, 2, False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(self.block(self.first(x)).flatten(2).transpose(1, 2))
        return y


def test_tensors_have_the_bits_of_the_whole_step(builds: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model("all", All(), (torch.randn(1, 3, 14, 16),), (torch.tensor([1]),), cross_entropy)
    step = TrainingStep(model)
    data = {id: tensor.detach().numpy().copy() for id, tensor in model.module.state_dict().items()}
    data |= {"input": model.inputs[0][None].numpy(), "target": model.targets[0][None].numpy().astype("i4")}
    found, operators = [], set()
    for layout in (MemoryLayout(), MemoryLayout(bands=Bands(3, 4096, 4096)), MemoryLayout(tiles=5)):
        graph = step.graph(BOARD, PLAIN, layout)
        operators |= {node.operation.op for node in graph.nodes if node.operation}
        schedule = store_all_schedule(graph)
        assert verify(graph, schedule).sound
        write_headers(graph, schedule, tmp_path, step.constants(graph))
        session = TrainingSession(graph, "", 0, 1, data)
        with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
            image = build(BOARD, tmp_path)
        with open_emulated_board(BOARD, image, tmp_path / "board.img") as emulated:
            link = Link(emulated.serial, "all")
            found.append(session.tensors([link.request(request, 60.0).values for request in session.requests]))
    in_bands = {"conv2d_rows", "conv2d_backward_weight_rows", "max_pool2d_rows", "max_pool2d_backward_rows"}
    assert in_bands | {"shift", "conv2d_accumulate", "matmul_accumulate"} <= operators
    assert found[0] == found[1] == found[2]
