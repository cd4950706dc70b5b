# SPDX-License-Identifier: Apache-2.0
"""Rows of matrices and channels in tiles give every tensor of a step the bits of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.graph.layout import MemoryLayout
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.memory.in_place import with_taking_over
from poet_planner.lowering.tiles.regions import with_tiles
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.graph.validation import check_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.levels import examples
from tests.support.networks.forms import prototypical

pytestmark = needs.gcc

BOARD = load_board("nrf52840")


class Bytes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.q, self.o, self.heads, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, 3), heads, causal

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.q(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * 0.3
        if self.causal:
            scores = scores + torch.full((t, t), -9.0).triu(1)
        weights = torch.softmax(scores, -1) @ v
        y: Tensor = self.o(weights.transpose(1, 2).reshape(b, t, d)).mean(1)
        return y


class Block(nn.Module):
    """An inverted residual."""

    def __init__(self, channels: int, wide: int, out: int, stride: int, bias: bool) -> None:
        super().__init__()
        self.residual = stride == 1 and channels == out
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, wide, 1, bias=bias), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=bias), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, out, 1, bias=bias), nn.BatchNorm2d(out)),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


def same_bits(module: nn.Module, x: Tensor, y: Tensor, tiles: int, operators: Operators) -> None:
    traced = trace(module, (x,), (y,), cross_entropy, "net")
    plain = lower_for_firmware(traced)
    cut = with_taking_over(with_tiles(plain, tiles))
    check_graph(cut)
    assert verify(cut, store_all_schedule(cut)).sound
    assert len(cut.nodes) > len(plain.nodes)
    data: dict[str, Any] = {id: tensor.detach().numpy().copy() for id, tensor in module.state_dict().items()}
    data |= {**constant_data(traced), "input": x.numpy(), "target": y.numpy().astype(np.int32)}
    expected, found = (run_step(graph, data, operators) for graph in (with_taking_over(plain), cut))
    assert [id for id, one in expected.items() if found[id].tobytes() != one.tobytes()] == []


def test_rows_of_attention(operators: Operators) -> None:
    @settings(max_examples=examples(8), deadline=None, derandomize=True)
    @given(st.integers(17, 30), st.integers(1, 3), st.integers(1, 2), st.booleans(), st.integers(3, 20))
    def equal(rows: int, heads: int, samples: int, causal: bool, tiles: int) -> None:
        torch.manual_seed(rows)
        module, x = Attention(4 * heads, heads, causal), torch.randn(samples, rows, 4 * heads)
        same_bits(module, x, torch.arange(samples), tiles, operators)

    equal()


def test_rows_of_a_loss_over_many_classes(operators: Operators) -> None:
    @settings(max_examples=examples(8), deadline=None, derandomize=True)
    @given(st.integers(3, 13), st.integers(30, 60), st.integers(1, 9), st.integers(2, 40), st.booleans())
    def equal(rows: int, classes: int, features: int, tiles: int, bias: bool) -> None:
        torch.manual_seed(rows)
        module = nn.Sequential(nn.Linear(5, features), nn.Tanh(), nn.Linear(features, classes, bias))
        same_bits(module, torch.randn(rows, 5), torch.randint(classes, (rows,)), tiles, operators)

    equal()


def test_channels_of_inverted_residuals(operators: Operators) -> None:
    @settings(max_examples=examples(8), deadline=None, derandomize=True)
    @given(st.integers(9, 14), st.integers(3, 10), st.integers(2, 5), st.data())
    def equal(size: int, channels: int, wider: int, data: st.DataObject) -> None:
        torch.manual_seed(size)
        stride, bias, samples = (
            data.draw(st.sampled_from((1, 2))),
            data.draw(st.booleans()),
            data.draw(st.sampled_from((1, 3))),
        )
        out = data.draw(st.sampled_from((channels, 6)))
        first = nn.Conv2d(3, channels, 3, 2, 1), nn.BatchNorm2d(channels), nn.ReLU()
        block = Block(channels, wider * channels, out, stride, bias)
        module = nn.Sequential(Bytes(), *first, block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(out, 3))
        module.train(samples > 1 or data.draw(st.booleans()))
        x = torch.randint(0, 256, (samples, 3, 2 * size, 2 * size), dtype=torch.uint8)
        same_bits(module, x, torch.arange(samples), data.draw(st.integers(2, 20)), operators)

    equal()


def test_a_tile_as_large_as_what_is_spread(operators: Operators) -> None:
    """One prototype of three, from which each query is subtracted."""
    torch.manual_seed(0)
    model = prototypical()
    step, found = TrainingStep(model), []
    for tiles in (1, 2, 8):
        graph = step.graph(BOARD, layout=MemoryLayout(tiles=tiles))
        batch = iter((*model.inputs, *model.targets))
        data = {id: tensor.detach().numpy() for id, tensor in model.module.state_dict().items()}
        data |= {one.id: next(batch).numpy() for one in graph.residents if one.kind in ("input", "target")}
        found.append(run_step(graph, {**data, **step.constants(graph)}, operators))
    assert any(node.operation and "copy(r0,x1);sub" in node.operation.params for node in graph.nodes)
    for id, one in found[0].items():
        assert one.tobytes() == found[1][id].tobytes() == found[2][id].tobytes(), id


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Conv2d(3, 9, 3), nn.GroupNorm(3, 9)),
        (nn.Conv2d(3, 9, 3), nn.MaxPool2d(2)),
        (nn.Flatten(2), nn.LSTM(64, 40)),
    ],
)
def test_what_has_no_way_stays_whole(layers: tuple[nn.Module, ...]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.last = nn.ModuleList(layers), nn.LazyLinear(2)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
                x = x[0] if isinstance(x, tuple) else x
            y: Tensor = self.last(x.flatten(1))
            return y

    module, x = Net(), torch.randn(1, 3, 8, 8)
    module(x)
    graph = lower_for_firmware(trace(module, (x,), (torch.tensor([1]),), cross_entropy, "net"))
    assert with_tiles(graph, 8) == graph
