# SPDX-License-Identifier: Apache-2.0
"""Inputs of bytes take a byte a number, int16 two; what becomes of them has PyTorch's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.tracing import trace
from poet_profiles.graph import Graph
from torch import Tensor, nn

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import Tensors, tensors_of_step

pytestmark = needs.gcc

MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "divided": lambda x: x.float() / 255,
    "promoted": lambda x: x / 255,
    "normalised": lambda x: (x.float() / 255 - 0.4914) / 0.247,
    "twice": lambda x: (x.float() - 100) * (x.float() / 3),
    "a root": lambda x: torch.sqrt(x.float().abs() / 255),
    "of chosen bytes": lambda x: torch.where(x > 100, x / 7, 0.5),
    "as a camera lays it": lambda x: x.permute(0, 2, 3, 1).float() / 255,
    "a double": lambda x: (x.double() / 255).float(),
    "a part": lambda x: x[:, :, 1:].float() / 8,
    "with a row": lambda x: x.float() * torch.arange(5.0),
    "two of it": lambda x: torch.cat([x.float() / 255, 1 - x / 128], 1),
}


class Weighed(nn.Module):
    def __init__(self, made: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.factor, self.made = nn.Parameter(torch.ones(1)), made

    def forward(self, x: Tensor) -> Tensor:
        return self.made(x) * self.factor


class Whole(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.module(x.long())
        return scores


def lowered(made: Callable[[Tensor], Tensor], x: Tensor, operators: Operators) -> tuple[Graph, Tensors]:
    """The graph, and what a step leaves."""
    module = Weighed(made)
    target = module(x).detach()
    traced = trace(module, (x,), (target,), lambda y, z: (y - z).abs().sum(), "bytes")
    graph = lower_for_firmware(traced)
    data = constant_data(traced)
    given = {"factor": np.ones(1, np.float32), "input": x.numpy(), "target": target.numpy()}
    return graph, tensors_of_step(graph, {**data, **given}, operators)


# What is divided by a number is multiplied by its inverse, and doubles are none of the firmware's: by tables alone.
OF_INT16 = {
    "scaled": lambda x: x.float() * (10 / 256),
    "promoted": lambda x: x / 256,
    "a number": lambda x: x.float(),
    "chosen": lambda x: torch.where(x > 100, x / 8, 0.5),
    "as a camera lays it": lambda x: x.permute(0, 2, 3, 1).float() / 256,
    "as maps": lambda x: x.unsqueeze(1).float().flatten(1, 2) * 0.5,
    **{name: MADE[name] for name in ("a part", "with a row")},
    "two of it": lambda x: torch.cat([x.float() / 256, 1 - x / 128], 1),
    "normalised": lambda x: (x.float() / 256 - 0.4914) / 0.25,
    "twice": lambda x: (x.float() - 100) * (x.float() / 4),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("name", MADE)
def test_bytes_become_pytorchs_numbers(name: str, dtype: torch.dtype, operators: Operators) -> None:
    x = torch.arange(300).to(dtype).reshape(2, 2, 15, 5)
    graph, held = lowered(MADE[name], x, operators)
    (given,) = (one for one in graph.residents if one.id == "input")
    assert (given.bytes, given.dtype) == (300, "u8" if dtype == torch.uint8 else "i8")
    # With a factor of one, the loss is zero where each number has the bits that PyTorch gave the target.
    assert held["loss"].view(np.float32)[0] == 0


@pytest.mark.parametrize("name", OF_INT16)
def test_int16_becomes_pytorchs_numbers(name: str, operators: Operators) -> None:
    x = torch.randint(-(1 << 15), 1 << 15, (2, 2, 15, 5), generator=torch.Generator().manual_seed(0)).to(torch.int16)
    graph, held = lowered(OF_INT16[name], x, operators)
    (given,) = (one for one in graph.residents if one.id == "input")
    assert (given.bytes, given.dtype) == (600, "i16")
    assert held["loss"].view(np.float32)[0] == 0


def test_what_is_read_as_whole_numbers_stays_of_words() -> None:
    module = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 1))
    tokens = torch.randint(9, (2, 3), dtype=torch.uint8)
    traced = trace(Whole(module), (tokens,), (torch.zeros(2, 1),), nn.functional.mse_loss, "tokens")
    (given,) = (one for one in lower_for_firmware(traced).residents if one.id == "input")
    assert (given.bytes, given.dtype) == (24, None)
