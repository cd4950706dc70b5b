# SPDX-License-Identifier: Apache-2.0
"""A step by the firmware's kernels on this computer, against autograd in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.tracing import trace
from poet_profiles.graph import Graph
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step

TOLERANCE = 5e-6
ROUNDING = 0.05  # gradients below it are differences of larger numbers


def equals_autograd(
    module: nn.Module,
    x: Tensor,
    operators: Operators,
    target: Tensor | None = None,
    criterion: Callable[[Tensor, Tensor], Tensor] = mse_loss,
    tolerance: float = TOLERANCE,
    segments: int = 1,
) -> Graph:
    """The graph of a step; without a target, on the distance from drawn numbers."""
    target = torch.randn(module(x).shape) if target is None else target
    traced = trace(module, (x,), (target,), criterion, "drawn", segments=segments)
    graph = lower_for_firmware(traced)
    assert why_no_headers(graph) is None
    tensors = {id: tensor.detach().numpy().copy() for id, tensor in module.state_dict().items()}
    tensors |= {**constant_data(traced), "input": x.numpy(), "target": target.numpy()}
    found = run_step(graph, tensors, operators)
    double = module.double()
    double.zero_grad()
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in (x, target)]
    loss = criterion(double(wide[0]), wide[1])
    loss.backward()  # type: ignore[no-untyped-call]
    assert abs(float(found["loss"]) - loss.item()) <= TOLERANCE * max(1, abs(loss.item()))
    for name, parameter in double.named_parameters():
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None
        exact = parameter.grad.numpy()
        allowed = tolerance * max(np.abs(exact).max(), ROUNDING)
        assert np.abs(found[f"{name}.grad"].reshape(exact.shape) - exact).max() <= allowed, name
    return graph
