# SPDX-License-Identifier: Apache-2.0
"""Whether a traced step, as it stands, does what eager PyTorch does with the same batch.

On the CPU tests have seen that. On a GPU other operators are traced, and tests seldom find one: each step is held
against eager PyTorch before it is planned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.compiled_step import compile_steps
from poet_runtime.devices import device_named
from poet_runtime.executor import store_all_steps
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn

# Without deterministic algorithms a GPU adds in any order.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


def refuse_other_results(
    traced: TracedGraph,
    residents: Mapping[str, Tensor],
    model: nn.Module,
    loss: Callable[..., Tensor],
    inputs: Sequence[Any],
    targets: Sequence[Any],
) -> None:
    """Take the step both ways, and compare loss and gradients. Model and random generator stay as they are.

    Raises
    ------
    UserError
        If they differ by more than rounding.
    """
    plain = compile_steps(traced, store_all_steps(traced))
    given = {**residents, **traced.constants}
    device = device_named(traced.device)
    with device.kept_randomness():
        state = device.random_state()
        value, gradients, _ = plain.run([given[id] for id in plain.residents])
        found = {"the loss": value, **dict(zip(plain.gradients, gradients, strict=True))}
        device.set_random_state(state)
        own, own_loss = copy.deepcopy((model, loss))
        value = own_loss(own(*inputs), *targets)
        parameters = {id: tensor for id, tensor in own.named_parameters() if id in found}
        expected = torch.autograd.grad(value, [*parameters.values()])
    for id, tensor in (("the loss", value.detach()), *zip(parameters, expected, strict=True)):
        if not torch.allclose(found[id], tensor, _RELATIVE, _ABSOLUTE * max(1.0, float(tensor.abs().max()))):
            what = id if id == "the loss" else f"the gradient of {id}"
            raise UserError(
                f"{traced.name}: on {traced.device}, {what} is not eager PyTorch's; poet does not trace this model "
                "rightly there: train it with PyTorch, or on the CPU"
            )
