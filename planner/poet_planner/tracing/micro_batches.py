# SPDX-License-Identifier: Apache-2.0
"""The step on a part of a batch, whose gradients add up to the batch's: whether there is one is found by looking.

Layers that mix samples have many names. So nothing is known about layers: gradients of drawn batches are held against
those of their parts, in double, where they differ by next to nothing or by much.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import TracedGraph, TracedOperator
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from poet_planner.models import Model
from poet_planner.tracing.capture import own_parameters, share, standing_in
from poet_planner.tracing.drawn_batches import Batch, compared_with, drawn_batches
from poet_planner.tracing.in_pieces import Step, backward_in_pieces
from poet_planner.tracing.snapshot import Snapshot

ROUNDING = 1e-9  # of sums in another order: relative to a tensor's largest number,
NOTHING = 1e-13  # or to that of all, where a gradient is zero but for rounding
_WEIGHTED = 1e-6
HELD_BYTES = 1 << 26  # of what autograd saves, at once: gradients of a batch in double would take twice eager's
_DRAWN = 16  # samples of which losses alone are looked at


def samples_of(model: Model) -> int:
    """Samples of its batch: the first axis of its first input."""
    first = next(iter(tensors_in(model.inputs, f"{model.name}: inputs")), None)
    return first.shape[0] if first is not None and first.dim() else 1


def parts_of(model: Model, count: int) -> list[Batch]:
    """The model's batch in equal parts."""
    if count == 1:
        return [(model.inputs, model.targets)]
    batch = tuple(model.inputs), tuple(model.targets)
    return [with_tensors(batch, map(torch.clone, part)) for part in cut(tensors_in(batch), count)]


def cut(tensors: Sequence[Tensor], count: int) -> list[tuple[Tensor, ...]]:
    """Tensors in equal parts: what has the samples along its first axis is cut, all else they share."""
    samples = tensors[0].shape[0]
    parts = (
        one.chunk(count) if one.dim() and one.shape[0] == samples else itertools.repeat(one, count) for one in tensors
    )
    return [*zip(*parts, strict=True)]


def first_samples(model: Model, count: int) -> Model:
    """The model with the first samples of its batch, in turn if it has fewer."""
    samples, batch = samples_of(model), (tuple(model.inputs), tuple(model.targets))
    rows = [row % samples for row in range(count)]
    cut = (one[rows] if one.dim() and one.shape[0] == samples else one for one in tensors_in(batch))
    inputs, targets = with_tensors(batch, cut)
    return replace(model, inputs=inputs, targets=targets)


def of_bytes(model: Model) -> Model:
    """The model on bytes of 0 to 255 in the place of f32; raises a `UserError` if it reads none."""
    given = tensors_in(model.inputs)
    if not any(one.dtype == torch.float32 for one in given):
        raise UserError(f"{model.name}: no input is f32")
    inputs = with_tensors(model.inputs, (one.to(torch.uint8) if one.dtype == torch.float32 else one for one in given))
    numbers = [place for place, one in enumerate(given) if one.dtype == torch.float32]
    return replace(model, module=_OfBytes(model.module, numbers), inputs=inputs)


class _OfBytes(nn.Module):
    def __init__(self, module: nn.Module, numbers: Sequence[int]) -> None:
        super().__init__()
        self.module, self._numbers = module, frozenset(numbers)
        self.training = module.training

    def forward(self, *inputs: Any) -> Any:
        given = enumerate(tensors_in(inputs))
        read = (one.float() / 255 if place in self._numbers else one for place, one in given)
        return self.module(*with_tensors(inputs, read))


def micro_batch(model: Model, traced: TracedGraph, count: int, divisor: int | None = None) -> Model:
    """The model with a part of its batch, and a loss whose gradients are that part's share of the batch's.

    ``traced`` is its step on the whole batch, which is cut in ``count`` parts; ``divisor`` is their
    `common_divisor`, if that is known.

    Raises
    ------
    UserError
        If the parts are not equal, or something couples the samples: a batch norm by its name, or whatever makes the
        gradients differ.
    """
    if count == 1:
        return model
    divisor = divisor or common_divisor(f"--micro-batches {count}", model, count, traced)
    inputs, targets = parts_of(model, count)[0]
    return replace(model, inputs=inputs, targets=targets, loss=share(model.loss, divisor))


def divisors(samples: int) -> list[int]:
    """In how many equal parts so many samples can be cut."""
    return [number for number in range(1, samples + 1) if samples % number == 0]


def _refuse_what_is_left(option: str, traced: TracedGraph) -> None:
    """Refuse what a step leaves beside gradients: it would be left once a part."""
    for operator in (*traced.operators, *traced.bookkeeping):
        if operator.updates:
            _refuse_norm(option, [operator])
            raise UserError(f"{option}: {operator.updates[0]} changes once a batch, not once a part; leave it out")
    for one in traced.kept:
        if one.refs:
            raise UserError(f"{option}: {one.path} would be left of the last part alone; leave it out")


def _refuse_norm(option: str, operators: Sequence[TracedOperator]) -> None:
    for operator in operators:
        if "batch_norm" in str(operator.target) and not operator.backward and operator.args[5]:
            raise UserError(
                f"{option}: {operator.module or operator.id} normalises by the statistics of the whole batch; put it "
                "into evaluation mode, or use GroupNorm"
            )


def common_divisor(option: str, model: Model, count: int, traced: TracedGraph) -> int:
    """What a part's loss is divided by: their number where the loss is a mean over samples, 1 where it is a sum.

    Raises
    ------
    UserError
        If the parts are not equal, the step leaves more than gradients, or none does for all batches that are tried.
    """
    samples = samples_of(model)
    if samples % count:
        possible = ", ".join(map(str, divisors(samples)))
        raise UserError(f"{option}: does not divide the batch of {samples}; it is one of {possible}")
    _refuse_what_is_left(option, traced)
    before = Snapshot(model.module, model.loss, model.inputs, model.targets)
    tried: list[_Tried] = []
    try:
        for batch in drawn_batches(model, traced):
            with suppress(UserError):
                tried.append(_off_by(option, model, batch, count))
        if not tried:
            tried.append(_off_by(option, model, _in_another_order(option, model), count))
        # Labels and masks may be alike in all parts by chance, the more so of few samples. Losses tell that.
        more = [(seed, None) for seed in range(1, 1 + max(3, _DRAWN // samples))]
        whose = range(len(tensors_in((model.inputs, model.targets))))
        often = itertools.product(range(1, 5), itertools.product(whose, compared_with(traced)))
        for seed, number in (*more, *often):
            for batch in drawn_batches(model, traced, seed, number):
                with suppress(UserError):
                    tried.append(_off_by(option, model, _sorted(batch, samples, seed), count, gradients=False))
                    break
    finally:
        before.restore()
    worst = {
        divisor: max((off, name) for one in tried for name, off in one.off[divisor].items()) for divisor in (count, 1)
    }
    for divisor, (off, _) in worst.items():
        if not off:
            return divisor
    _refuse_norm(option, traced.operators)
    off, name = min(worst.values())
    cure = "; leave it out"
    if all(one.weighted for one in tried):
        cure = (
            ", a loss that divides by another number in each part (labels that it ignores, weights, a mask); let it "
            "divide by the number of samples"
        )
    raise UserError(
        f"{option}: the {name} over {samples} samples is not the mean of those over {count} x {samples // count} "
        f"({100 * off:.2g} % off): something couples samples{cure}"
    )


def _in_another_order(option: str, model: Model) -> Batch:
    """The example's own samples, some twice and some not at all."""
    batch, samples = (tuple(model.inputs), tuple(model.targets)), samples_of(model)
    order = torch.randint(samples, (samples,), generator=torch.Generator().manual_seed(0))
    tensors = [one[order] if one.dim() and one.shape[0] == samples else one for one in tensors_in(batch)]
    if any(torch.equal(one, was) for one, was in zip(tensors, tensors_in(batch), strict=True) if one is not was):
        raise UserError(
            f"{option}: {model.name} takes no other numbers than its example's, which are the same for all samples and "
            "do not show whether something couples them; give an example whose samples differ, or leave it out"
        )
    other: Batch = with_tensors(batch, tensors)
    return other


def _sorted(batch: Batch, samples: int, turn: int) -> Batch:
    """Its samples by the numbers of one of its tensors, each in turn: the first part has the smallest."""
    tensors = tensors_in(batch)
    along = [one for one in tensors if one.dim() and one.shape[0] == samples]
    order = along[turn % len(along)].reshape(samples, -1).double().sum(1).argsort()
    ordered: Batch = with_tensors(
        batch, [one[order] if any(one is other for other in along) else one for one in tensors]
    )
    return ordered


@dataclass(frozen=True)
class _Tried:
    """What a batch shows: ``off`` says by divisor and name how far the parts' sums are from the batch's.

    ``weighted``: the batch's are sums of the parts', each times a number of its own.
    """

    off: dict[int, dict[str, float]]
    weighted: bool


def _off_by(option: str, model: Model, batch: Batch, count: int, gradients: bool = True) -> _Tried:
    """Raises a `UserError` if the step makes no numbers of the batch."""
    given = replace(model, inputs=batch[0], targets=batch[1])
    with users_code(f"{option}: {model.name} in double"), _in_double(), _SameNoise():  # type: ignore[no-untyped-call]
        parameters = _doubles(model)
        expected, *parts = (
            _loss_and_gradients(model, one, parameters, gradients) for one in (batch, *parts_of(given, count))
        )
    if not all(one.isfinite().all() for one in expected.values()):
        raise UserError(f"{option}: {model.name} makes no finite numbers; leave it out")
    sums = {name: torch.stack([part[name] for part in parts]).sum(0) for name in expected}
    largest = max(float(tensor.abs().max()) for tensor in expected.values() if tensor.numel())
    off = {
        divisor: {name: _off(sums[name] / divisor, one, largest) for name, one in expected.items()}
        for divisor in (count, 1)
    }
    fits = any(not any(one.values()) for one in off.values())
    return _Tried(off, fits or _are_weighted(expected, parts, largest))


def _are_weighted(expected: Mapping[str, Tensor], parts: Sequence[Mapping[str, Tensor]], largest: float) -> bool:
    # A part that is no number, as one without any label that counts, may count nothing.
    rows = {name: torch.stack([part[name].flatten() for part in parts], 1).nan_to_num() for name in expected}
    products = sum(one.T @ one for one in rows.values())
    wanted = sum(one.T @ expected[name].reshape(-1, 1) for name, one in rows.items())
    weights = torch.linalg.pinv(products, hermitian=True) @ wanted
    return all(
        bool(((one @ weights).flatten() - expected[name].flatten()).abs().max() <= _WEIGHTED * largest)
        for name, one in rows.items()
        if one.numel()
    )


def _doubles(model: Model) -> dict[str, Tensor]:
    """What stands for the parameters of model and loss, by name.

    They have some noise on them: zeros among weights hide as much as zeros in a batch.
    """
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}
    for name, parameter in (*model.module.named_parameters(), *own_parameters(model.loss, model.module).items()):
        double = _as_double(parameter.detach()).clone()
        if double.is_floating_point():
            size = 0.1 * (float(double.norm()) / max(1, double.numel()) ** 0.5 or 1.0)
            double += size * torch.randn(double.shape, generator=generator).to(double)
        found[name] = double.requires_grad_(parameter.requires_grad)
    return found


def _loss_and_gradients(
    model: Model, batch: Batch, parameters: Mapping[str, Tensor], wanted: bool
) -> dict[str, Tensor]:
    """In double, by their names in words; gradients if they are wanted."""
    inputs, targets = with_tensors(batch, (_as_double(one).clone() for one in tensors_in(batch)))
    of_loss = own_parameters(model.loss, model.module)
    if isinstance(model.loss, nn.Module):
        of_loss |= dict(model.loss.named_buffers("..loss"))
    buffers = {**dict(model.module.named_buffers()), **of_loss}
    state = {**{name: _as_double(buffer).clone() for name, buffer in buffers.items()}, **parameters}
    trained = {name: double for name, double in parameters.items() if double.requires_grad and wanted}
    losses: list[Tensor] = []
    with torch.set_grad_enabled(wanted), standing_in(model.module, model.loss, state, of_loss):

        def forward() -> Tensor:
            return model.loss(model.module(*inputs), *targets)

        if wanted:
            step = Step(
                forward=forward,
                between=lambda loss: losses.append(loss.detach()),
                again=Snapshot(model.module, model.loss, inputs, targets, data=False).restore,
                trained=[*trained.values()],
                written=lambda: [one._version for one in state.values()],
                held=(*state.values(), *tensors_in((inputs, targets))),
            )
            backward_in_pieces(step, HELD_BYTES)
        else:
            losses.append(forward())
    named = {
        f"gradient of {name}": torch.zeros_like(one) if one.grad is None else one.grad for name, one in trained.items()
    }
    for one in trained.values():
        one.grad = None
    return {"loss": losses[-1], **named}


def _as_double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


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


class _SameNoise(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, what is drawn is one number throughout, and dropout keeps everything.

    On a board each part draws numbers of its own. And what is in f32, or the model turns into that, is in double.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in (torch.float32, torch.float16, torch.bfloat16):
            kwargs["dtype"] = torch.float64
        try:
            made = func(*args, **kwargs)
        except RuntimeError:  # of operands in f32 and in f64
            made = func(*tree_map_only(Tensor, _as_double, args), **tree_map_only(Tensor, _as_double, kwargs))
        if torch.Tag.nondeterministic_seeded in func.tags and isinstance(made, Tensor):
            made.fill_(1 if "bernoulli" in func.name() else 0.5 if made.is_floating_point() else 0)
        return made
