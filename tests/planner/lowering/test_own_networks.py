# SPDX-License-Identifier: Apache-2.0
"""Own networks, three steps by the firmware's kernels on this computer, each step against autograd from its weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.rewrites.random_numbers import generator_of
from poet_planner.models import Model
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.torch_reference.board_random import BoardRandom
from poet_planner.tracing import trace

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import Tensors, run_step
from tests.support.networks.own import OWN_NETWORKS

STEPS = 3
TOLERANCE = 1e-5
ROUNDING = 16.0

pytestmark = needs.gcc


@pytest.mark.parametrize("make", OWN_NETWORKS)
def test_three_steps_equal_autograd(make: Callable[[int | None], Model], operators: Operators) -> None:
    torch.manual_seed(0)
    model = make(None)
    before = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name, segments=1)
    graph = lower_for_firmware(traced)
    assert why_no_headers(graph) is None
    assert verify(graph, store_all_schedule(graph)).sound
    constants = constant_data(traced)
    tensors = {**before, **constants, "input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    tensors |= {
        resident.id: np.zeros(2, np.int32) for resident in graph.residents if resident.id == generator_of(traced)
    }
    for step in range(STEPS):
        given = {id: tensors[id] for id in before}
        tensors |= run_step(graph, tensors, operators)
        tensors["target"] = model.targets[0].numpy()
        single, double = (_autograd(model, given, step, dtype) for dtype in (torch.float32, torch.float64))
        for id, exact in double.items():
            allowed = max(TOLERANCE * np.abs(exact).max(), ROUNDING * np.abs(single[id] - exact).max())
            assert np.abs(tensors[id] - exact).max() <= allowed, id


def _autograd(model: Model, state: Tensors, step: int, dtype: torch.dtype) -> Tensors:
    """Loss, gradients and what buffers become, by PyTorch, from these weights and with the board's masks."""
    module = model.module.to(dtype)
    weights = {id: torch.from_numpy(np.array(array)) for id, array in state.items()}
    module.load_state_dict({id: weights[id].reshape(tensor.shape) for id, tensor in module.state_dict().items()})
    module.zero_grad()
    batch = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in (*model.inputs, *model.targets)]
    with BoardRandom(0, step):
        loss = model.loss(module(batch[0]), batch[1])
        loss.backward()
    gradients = {f"{id}.grad": p.grad.numpy() for id, p in module.named_parameters() if p.grad is not None}
    buffers = {id: buffer.numpy() for id, buffer in module.named_buffers() if buffer.is_floating_point()}
    return {"loss": loss.detach().numpy(), **gradients, **buffers}
