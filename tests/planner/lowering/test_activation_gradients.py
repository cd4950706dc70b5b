# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations by results, and before unpooling, have PyTorch's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.tracing import trace
from torch import Tensor, nn
from torch.nn import functional

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step

pytestmark = needs.gcc

Function = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Function] = {
    "relu": torch.relu,
    "leaky": lambda x: functional.leaky_relu(x, 0.1),
    "leaky, default": functional.leaky_relu,
    "hardtanh": functional.hardtanh,
    "hardtanh from 0": lambda x: functional.hardtanh(x, 0.0, 0.5),
    "relu6": functional.relu6,
}
# Their gradients cannot be taken by results, or not before unpooling.
OTHERS: dict[str, Function] = {
    "leaky, slope 0": lambda x: functional.leaky_relu(x, 0.0),
    "leaky, slope below 0": lambda x: functional.leaky_relu(x, -0.1),
    "leaky, slope -0": lambda x: functional.leaky_relu(x, -0.0),
}
FOLLOWED: dict[str, Function] = {
    "none": lambda y: y,
    "2x2": lambda y: functional.max_pool2d(y, 2),
    "a row left": lambda y: functional.max_pool2d(y, 3, stride=3, padding=1),
    "adaptive": lambda y: functional.adaptive_max_pool2d(y, 3),
    "in a line": lambda y: functional.max_pool1d(y.flatten(2), 4),
    "gaps": lambda y: functional.max_pool2d(y, 2, stride=3),
    "overlap": lambda y: functional.max_pool2d(y, 3, stride=2),
    "and kept beside": lambda y: torch.cat([functional.max_pool2d(y, 2).flatten(), y.flatten()]),
}


class Pooled(nn.Module):
    def __init__(self, given: Tensor, function: Function) -> None:
        super().__init__()
        self.given, self.function = nn.Parameter(given), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.given * x)


def odd_numbers(*shape: int) -> Tensor:
    """Drawn, a third of them zeros, subnormals, limits, infinities and no numbers."""
    draw = np.random.default_rng(0)
    odd = np.array([0.0, -0.0, 1e-40, -1e-40, 1e-45, 1, -1, 6, 0.5, np.inf, -np.inf, np.nan], np.float32)
    numbers = draw.standard_normal(shape).astype(np.float32)
    return torch.from_numpy(np.where(draw.random(shape) < 0.3, draw.choice(odd, shape), numbers))


def ops_of(function: Function, given: Tensor, operators: Operators) -> list[str]:
    """Of the step, whose gradient has autograd's bits, but for zeros' signs."""
    module, ones = Pooled(given, function), torch.ones(1)
    out = module(ones)
    weights = odd_numbers(*out.shape)
    loss = (out * weights).sum()
    loss.backward()
    traced = trace(module, (ones,), (weights,), lambda found, by: (found * by).sum(), "pooled")
    graph = lower_for_firmware(traced)
    tensors = {"given": given.numpy().copy(), "input": ones.numpy(), "target": weights.numpy()}
    found = run_step(graph, tensors, operators)["given.grad"]
    assert module.given.grad is not None
    expected = module.given.grad.numpy()
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (found[~same], expected[~same])
    return [f"{node.operation.op} {node.operation.params}" for node in graph.nodes if node.operation]


@pytest.mark.parametrize(
    ("activation", "pool"),
    [
        *((one, pool) for one in (*ACTIVATIONS, *OTHERS) for pool in ("2x2", "none")),
        *(("leaky", pool) for pool in [*FOLLOWED][2:]),
    ],
)
def test_gradients_have_autograds_bits(activation: str, pool: str, operators: Operators) -> None:
    given, function = odd_numbers(1, 2, 6, 6), {**ACTIVATIONS, **OTHERS}[activation]
    if activation in OTHERS:
        given = torch.randn(1, 2, 6, 6)  # not all of their steps have PyTorch's bits of odd numbers
    if "h" in activation or "6" in activation:
        given = given.nan_to_num(0.25, np.inf, -np.inf)  # PyTorch lets one or no gradient through, as vectors fall
    ops = ops_of(lambda x: FOLLOWED[pool](function(x)), given, operators)
    spread = next((place for place, op in enumerate(ops) if op.startswith("max_pool2d_backward")), None)
    slopes = [place for place, op in enumerate(ops) if "backward(" in op]
    if spread is not None and pool not in ("overlap", "and kept beside") and activation in ACTIVATIONS:
        assert slopes and max(slopes) < spread
