# SPDX-License-Identifier: Apache-2.0
"""One sample out of a batch, of a module that computes each for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.nested import tensors_in, with_tensors
from torch import Tensor, nn

from poet_planner.tracing.evaluating import evaluating
from poet_planner.tracing.snapshot import Snapshot

# Kernels add in another order for another batch; relative to the largest number.
ROUNDING = 1e-4


def one_sample(module: nn.Module, inputs: Sequence[Any], name: str) -> tuple[Any, ...]:
    """The inputs of a module for the first sample alone.

    Raises
    ------
    UserError
        If in evaluation mode the module makes something else of it than in the batch: the first axis of inputs and
        output does not count samples.
    """
    tensors = tensors_in(inputs, f"{name}: inputs")
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    if sizes == {1}:
        return tuple(inputs)
    refusal = UserError("the first axis of its inputs and of its output does not count samples")
    if len(sizes) != 1 or sizes == {0}:
        raise refusal
    first = tuple(with_tensors(inputs, [tensor[:1].clone() for tensor in tensors]))
    before = Snapshot(module, inputs)
    try:
        with evaluating(module), torch.no_grad():
            alone, again, among = module(*first), module(*first), module(*inputs)
    finally:
        before.restore()
    if not all(isinstance(one, Tensor) for one in (alone, again, among)):
        return first  # tracing says what is wrong with it
    if not torch.equal(alone.nan_to_num(), again.nan_to_num()):
        raise UserError("it draws random numbers in evaluation mode")
    if alone.shape != (1, *among.shape[1:]) or among.shape[0] not in sizes:
        raise refusal
    if not torch.allclose(alone, among[:1], rtol=ROUNDING, atol=ROUNDING * float(alone.abs().max()), equal_nan=True):
        raise refusal
    return first
