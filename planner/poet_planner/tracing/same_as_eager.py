# SPDX-License-Identifier: Apache-2.0
"""Whether a traced step, as it stands, does what eager PyTorch does with the same batch: bit for bit on the CPU.

A model may ask in ways that no trace can answer as eager PyTorch does (which dispatch mode is active, say), and take
another way while it is traced. So each step is compared with a real one before it is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.compiled_step import compile_steps
from poet_runtime.devices import device_named
from poet_runtime.executor import residents_of, store_all_steps
from poet_runtime.nested import parts_of
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn

from poet_planner.models import Model
from poet_planner.tracing.drawn_batches import drawn_batches
from poet_planner.tracing.snapshot import Snapshot

# Without deterministic algorithms a GPU adds in any order.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


def refuse_other_results(
    traced: TracedGraph,
    residents: Mapping[str, Tensor],
    model: nn.Module,
    loss: Callable[..., Tensor],
    inputs: Sequence[Any],
    targets: Sequence[Any],
    bits: bool = True,
) -> Tensor:
    """Take the step both ways, and compare the loss, the gradients and what the step writes; return eager's loss.

    Model, batch and random generator stay as they are.

    Raises
    ------
    UserError
        If they differ: on the CPU in any bit, unless eager PyTorch itself gives others each time; on a GPU by more than
        rounding, and so everywhere without ``bits``.
    """
    plain = compile_steps(traced, store_all_steps(traced))
    given = {**residents, **traced.constants}
    device = device_named(traced.device)
    with device.kept_randomness():
        state = device.random_state()

        def eager() -> dict[str, Tensor]:
            device.set_random_state(state)
            return _eager(traced, {id: given[id] for id in plain.updates}, model, loss, inputs, targets)

        value, gradients, contents = plain.run([given[id] for id in plain.residents])
        found = {
            "the loss": value,
            **{_of(id): gradient for id, gradient in zip(plain.gradients, gradients, strict=True)},
            **dict(zip((*plain.updates, *_numbered(plain.kept)), contents, strict=True)),
        }
        expected = eager()
        exact = bits and device.kind == "cpu" and any(_differing(found, expected, True))
        if exact:
            exact = not any(_differing(expected, eager(), True))
    for what in _differing(found, expected, exact):
        difference = float((found[what].double() - expected[what].double()).abs().max())
        raise UserError(
            f"{traced.name}: {what} is not eager PyTorch's (largest difference {difference:.2g}); poet does not trace "
            f"this model rightly on {traced.device}: train it with PyTorch, and report it"
        )
    return expected["the loss"]


def refuse_other_step(model: Model, traced: TracedGraph) -> None:
    """The same up to rounding, with the example and with a drawn batch: a board adds in its own order."""
    for number, batch in enumerate(((model.inputs, model.targets), *drawn_batches(model, traced))):
        residents = residents_of(traced, model.module, *batch)
        try:
            loss = refuse_other_results(traced, residents, model.module, model.loss, *batch, bits=False)
        except UserError:
            raise
        except Exception:
            if number == 0:
                raise
        else:
            if number and loss.isfinite():
                return  # else it takes no such numbers


def _differing(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], exact: bool) -> Iterator[str]:
    for what, wanted in expected.items():
        absolute = _ABSOLUTE * max(1.0, float(wanted.abs().max())) if wanted.numel() else 0.0
        near = (0.0, 0.0) if exact else (_RELATIVE, absolute)
        if not torch.allclose(found[what], wanted, *near, equal_nan=True):
            yield what


def _numbered(paths: Sequence[str]) -> list[str]:
    return [f"tensor {number} that is kept, in {path}," for number, path in enumerate(paths)]


def _of(parameter: str) -> str:
    return f"the gradient of {parameter}"


def _eager(
    traced: TracedGraph,
    written: Mapping[str, Tensor],
    model: nn.Module,
    loss: Callable[..., Tensor],
    inputs: Sequence[Any],
    targets: Sequence[Any],
) -> dict[str, Tensor]:
    """One real step; ``written`` are the tensors that it writes, by resident id, and they are put back."""
    state = Snapshot(model, loss, inputs, targets, data=False)
    kept = {id: tensor.clone() for id, tensor in written.items()}
    parameters = {**dict(model.named_parameters()), **traced.loss_parameters}
    trained = [parameters[id] for id in traced.gradients]
    try:
        with torch.enable_grad():
            value = loss(model(*inputs), *targets)
            for parameter in trained:
                parameter.grad = None
            value.backward()  # type: ignore[no-untyped-call]  # a reentrant checkpoint takes no `autograd.grad`
            gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        # A buffer may be another tensor now.
        now = {**written, **dict(model.named_buffers())}
        left = {id: now[id].detach().clone() for id in written}
        there = [(one.path, tensor) for one in traced.kept if one.refs for tensor in parts_of(one.get()).tensors]
        names = _numbered([path for path, _ in there])
        left |= {name: tensor.detach().clone() for name, (_, tensor) in zip(names, there, strict=True)}
    finally:
        state.restore()
        with torch.no_grad():
            for id, tensor in written.items():
                tensor.copy_(kept[id])
    return {"the loss": value.detach(), **dict(zip(map(_of, traced.gradients), gradients, strict=True)), **left}
