# SPDX-License-Identifier: Apache-2.0
"""Whether steps on slices of a batch, whose gradients add up, do where a step on the whole of it takes too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_runtime.measured_sizes import measured
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn

from poet_planner.lowering import lower_for_linux
from poet_planner.models import Model
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import common_divisor

Arguments = tuple[Any, ...]


def by_slices(
    traced: TracedGraph,
    model: nn.Module,
    loss: Callable[..., Tensor],
    inputs: Arguments,
    targets: Arguments,
    budget: int,
) -> str:
    """How to take the step in slices of the batch, as the end of a message; empty unless that has been seen to do.

    Nobody can tell where the step draws random numbers or changes buffers.
    """
    changes = any(operator.random or operator.updates for operator in (*traced.operators, *traced.bookkeeping))
    tensors = tensors_in((inputs, targets))
    samples = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    # Those of the slices before are there, too.
    gradients = sum(traced.values[ref.source].bytes for ref in traced.gradients.values())
    if changes or len(samples) != 1 or 2 * gradients > budget:
        return ""
    count = samples.pop()
    for slices in (number for number in range(2, count + 1) if count % number == 0):
        parts = [
            with_tensors((inputs, targets), part) for part in zip(*(t.chunk(slices) for t in tensors), strict=True)
        ]
        try:
            with users_code(traced.name):
                if _kept_bytes(traced, model, loss, *parts[0]) + gradients > budget:
                    continue
            divisor = common_divisor("slices", Model(traced.name, model, inputs, targets, loss), slices, traced)
        except UserError:
            return ""
        divided = f" with a loss divided by {divisor}" if divisor > 1 else ""
        return (
            f"; steps on {count // slices} of its {count} samples at a time do: compile for these{divided}, and the "
            "gradients add up to the batch's but for rounding"
        )
    return ""


def _kept_bytes(
    traced: TracedGraph, model: nn.Module, loss: Callable[..., Tensor], inputs: Arguments, targets: Arguments
) -> int:
    """What a step allocates that keeps everything."""
    step = trace(model, inputs, targets, loss, traced.name, traced.device)
    graph = lower_for_linux(measured(step, model, inputs, targets), dma=False, resident_gradients=False)
    return store_all_schedule(graph).peak_bytes - graph.resident_bytes
