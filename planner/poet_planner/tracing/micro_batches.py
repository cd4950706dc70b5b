# SPDX-License-Identifier: Apache-2.0
"""The step on a part of a batch, whose gradients add up to the batch's: whether there is one is found by looking.

Layers that mix samples have many names. So nothing is known about layers: gradients of the example batch are held
against those of its parts, in double, where they differ by next to nothing or by much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import TracedGraph, TracedOperator
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from poet_planner.models import Model
from poet_planner.tracing.snapshot import Snapshot

ROUNDING = 1e-9  # of sums in another order: relative to a tensor's largest number,
NOTHING = 1e-13  # or to that of all, where a gradient is zero but for rounding
Batch = tuple[tuple[Any, ...], tuple[Any, ...]]


def samples_of(model: Model) -> int:
    """Samples of its batch: the first axis of its first input."""
    first = next(iter(tensors_in(model.inputs, f"{model.name}: inputs")), None)
    return first.shape[0] if first is not None and first.dim() else 1


def parts_of(model: Model, count: int) -> list[Batch]:
    """The model's batch in equal parts: what has the samples along its first axis is cut, all else they share."""
    if count == 1:
        return [(model.inputs, model.targets)]
    samples, batch = samples_of(model), (tuple(model.inputs), tuple(model.targets))

    def cut(tensor: Tensor) -> Sequence[Tensor]:
        return tensor.chunk(count) if tensor.dim() and tensor.shape[0] == samples else (tensor,) * count

    tensors = zip(*(cut(tensor) for tensor in tensors_in(batch)), strict=True)
    return [with_tensors(batch, [tensor.clone() for tensor in part]) for part in tensors]


def first_samples(model: Model, count: int) -> Model:
    """The model with the first samples of its batch."""
    samples, batch = samples_of(model), (tuple(model.inputs), tuple(model.targets))
    tensors = tensors_in(batch)
    cut = (one[:count].clone() if one.dim() and one.shape[0] == samples else one for one in tensors)
    inputs, targets = with_tensors(batch, cut)
    return replace(model, inputs=inputs, targets=targets)


def micro_batch(model: Model, traced: TracedGraph, count: int) -> Model:
    """The model with a part of its batch, and a loss whose gradients are that part's share of the batch's.

    ``traced`` is its step on the whole batch, which is cut in ``count`` parts.

    Raises
    ------
    UserError
        If the parts are not equal, or something couples the samples: a batch norm by its name, or whatever makes the
        gradients differ.
    """
    if count == 1:
        return model
    option, samples = f"--micro-batches {count}", samples_of(model)
    if samples % count:
        divisors = ", ".join(str(number) for number in range(1, samples + 1) if samples % number == 0)
        raise UserError(f"{option}: does not divide the batch of {samples}; it is one of {divisors}")
    _refuse_updates(option, traced)
    divisor = _divisor(option, _told_apart(model), count, traced)
    inputs, targets = parts_of(model, count)[0]
    return replace(model, inputs=inputs, targets=targets, loss=_share(model.loss, divisor))


def _refuse_updates(option: str, traced: TracedGraph) -> None:
    for operator in (*traced.operators, *traced.bookkeeping):
        if operator.updates:
            _refuse_norm(option, [operator])
            raise UserError(f"{option}: {operator.updates[0]} changes once a batch, not once a part; leave it out")


def _refuse_norm(option: str, operators: Sequence[TracedOperator]) -> None:
    for operator in operators:
        if "batch_norm" in str(operator.target) and not operator.backward and operator.args[5]:
            raise UserError(
                f"{option}: {operator.module or operator.id} normalises by the statistics of the whole batch; put it "
                "into evaluation mode, or use GroupNorm"
            )


def _share(loss: Callable[..., Tensor], divisor: int) -> Callable[..., Tensor]:
    if divisor == 1:
        return loss
    return lambda output, *targets: loss(output, *targets) / divisor


def _told_apart(model: Model) -> Model:
    """The model with samples that differ: of equal ones, such as an example of zeros, nothing shows what mixes them."""
    samples, generator = samples_of(model), torch.Generator().manual_seed(0)

    def differing(tensor: Tensor) -> Tensor:
        of_samples = tensor.dim() and tensor.shape[0] == samples and tensor.is_floating_point()
        if not of_samples or not tensor.isfinite().all() or (tensor != tensor[:1]).any():
            return tensor
        return tensor + torch.randn(tensor.shape, generator=generator).to(tensor)

    inputs = with_tensors(tuple(model.inputs), map(differing, tensors_in(tuple(model.inputs))))
    return replace(model, inputs=inputs)


def _divisor(option: str, model: Model, count: int, traced: TracedGraph) -> int:
    """What a part's loss is divided by: their number where the loss is a mean over samples, 1 where it is a sum."""
    parts = parts_of(model, count)
    before = Snapshot(model.module, model.loss, model.inputs, model.targets)
    try:
        with users_code(f"{option}: {model.name} in double"), _in_double(), _OfOnes():  # type: ignore[no-untyped-call]
            expected = _loss_and_gradients(model, (model.inputs, model.targets))
            found = [_loss_and_gradients(model, part) for part in parts]
    finally:
        before.restore()
    sums = {name: torch.stack([part[name] for part in found]).sum(0) for name in expected}
    largest = max(float(tensor.abs().max()) for tensor in expected.values())
    off = {
        divisor: {name: _off(sums[name] / divisor, expected[name], largest) for name in expected}
        for divisor in (len(parts), 1)
    }
    for divisor, by_name in off.items():
        if not any(by_name.values()):
            return divisor
    _refuse_norm(option, traced.operators)
    by_name = min(off.values(), key=lambda one: max(one.values()))
    worst = max(by_name, key=lambda name: by_name[name])
    samples = samples_of(model)
    raise UserError(
        f"{option}: the {worst} over {samples} samples is not the mean of those over {len(parts)} x "
        f"{samples // len(parts)} ({100 * by_name[worst]:.2g} % off): something couples samples; leave it out"
    )


def _loss_and_gradients(model: Model, batch: Batch) -> dict[str, Tensor]:
    """In double, by their names in words."""
    inputs, targets = with_tensors(batch, map(_double, tensors_in(batch)))
    parameters = {
        name: _double(parameter.detach()).requires_grad_(parameter.requires_grad)
        for name, parameter in model.module.named_parameters()
    }
    buffers = {name: _double(buffer) for name, buffer in model.module.named_buffers()}
    with torch.enable_grad():
        output = functional_call(model.module, {**parameters, **buffers}, tuple(inputs))
        if isinstance(model.loss, nn.Module):
            state = {name: _double(buffer) for name, buffer in model.loss.named_buffers()}
            loss = functional_call(model.loss, state, (output, *targets))
        else:
            loss = model.loss(output, *targets)
        trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        gradients = torch.autograd.grad(loss, [*trained.values()], allow_unused=True, materialize_grads=True)
    named = {f"gradient of {name}": gradient for name, gradient in zip(trained, gradients, strict=True)}
    return {"loss": loss.detach(), **named}


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _off(found: Tensor, expected: Tensor, largest: float) -> float:
    """Difference relative to the largest number; 0 if it is rounding. NaN differs from all."""
    difference = float((found - expected).abs().max()) if expected.numel() else 0.0
    own = float(expected.abs().max()) if expected.numel() else 0.0
    if difference <= max(ROUNDING * own, NOTHING * largest):
        return 0.0
    return difference / own if own and difference == difference else float("inf")


@contextmanager
def _in_double() -> Iterator[None]:
    """What a module makes of no tensor's type is in double, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class _OfOnes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, dropout keeps everything: on a board each part draws numbers of its own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.bernoulli_.float:
            return args[0].fill_(1)
        return func(*args, **(kwargs or {}))
