# SPDX-License-Identifier: Apache-2.0
"""Whether a traced step does what eager PyTorch does with the same batch.

On the CPU that is bit for bit. A model may ask in ways that no trace can answer as eager PyTorch does (which dispatch
mode is active, say), and take another way while it is traced. So each step is compared with a real one before it is
planned.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.devices import device_named
from poet_runtime.executor import residents_of, store_all_steps
from poet_runtime.nested import parts_of
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn

from poet_planner.models import Model
from poet_planner.tracing.drawn_batches import drawn_batches
from poet_planner.tracing.in_pieces import Step, backward_in_pieces
from poet_planner.tracing.snapshot import Snapshot

# Without deterministic algorithms a GPU adds in any order.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


@dataclass
class Seen:
    """Results of a step, by what they are in words.

    They are digests, or whole. It is called with the gradients that updates use up.
    """

    whole: bool = False
    results: dict[str, Any] = field(default_factory=dict)

    def __call__(self, parameter: str, gradient: Tensor) -> None:
        self.note(_of(parameter), gradient)

    def note(self, what: str, result: Tensor) -> None:
        self.results[what] = result.detach() if self.whole else digest(result)


def refuse_other_results(
    traced: TracedGraph,
    residents: Mapping[str, Tensor],
    model: nn.Module,
    loss: Callable[..., Tensor],
    inputs: Sequence[Any],
    targets: Sequence[Any],
    bits: bool = True,
    step: tuple[CompiledStep, Seen] | None = None,
    limit_bytes: float = math.inf,
) -> Tensor:
    """Take the step both ways, and compare what it leaves.

    These are the loss, the gradients, and what the step writes and keeps. Returned is eager's loss.

    Model, batch and random generator stay as they are. ``step`` is a plan of the step, and what is given the gradients
    that it uses up; else the step keeps everything. ``limit_bytes`` is the most that eager PyTorch's backward pass
    holds of what autograd saves.

    Raises
    ------
    UserError
        If they differ: on the CPU in any bit, unless eager PyTorch itself gives others each time; on a GPU by more than
        rounding, and so everywhere without ``bits``.
    """
    planned, seen = step or (compile_steps(traced, store_all_steps(traced)), Seen())
    given = {**residents, **traced.constants}
    device = device_named(traced.device)
    exact = bits and device.kind == "cpu"
    with device.kept_randomness():
        state = device.random_state()

        def by_plan() -> dict[str, Any]:
            device.set_random_state(state)
            seen.results = {}
            value, gradients, contents = planned.run([given[id] for id in planned.residents])
            seen.note("the loss", value)
            for id, gradient in zip(planned.gradients, gradients, strict=True):
                seen.note(_of(id), gradient)
            for what, content in zip((*planned.updates, *_numbered(planned.kept)), contents, strict=True):
                seen.note(what, content)
            return seen.results

        def eager() -> dict[str, Any]:
            device.set_random_state(state)
            written = {id: given[id] for id in planned.updates}
            eagers = Seen(seen.whole)
            losses.append(_eager(traced, written, model, loss, inputs, targets, eagers, given.values(), limit_bytes))
            return eagers.results

        losses: list[Tensor] = []
        seen.whole = not exact
        found, expected = by_plan(), eager()
        if exact and found != expected:
            seen.whole = True
            found, expected = by_plan(), eager()
            exact = not any(_differing(expected, eager(), True))
    if not seen.whole:
        return losses[0]
    for what in _differing(found, expected, exact):
        difference = float((found[what].double() - expected[what].double()).abs().max())
        raise UserError(
            f"{traced.name}: {what} is not eager PyTorch's (largest difference {difference:.2g}); poet does not trace "
            f"this model rightly on {traced.device}: train it with PyTorch, and report it"
        )
    return losses[0]


def refuse_other_step(model: Model, traced: TracedGraph) -> None:
    """The same up to rounding, with the example and with a drawn batch.

    A board adds in its own order.
    """
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
    seen: Seen,
    held: Iterable[Tensor],
    limit_bytes: float,
) -> Tensor:
    """The loss of one real step; ``written`` are the tensors that it writes, by resident id, and they are put back."""
    device = device_named(traced.device)
    random, state = device.random_state(), Snapshot(model, loss, inputs, targets, data=False)
    kept = {id: tensor.clone() for id, tensor in written.items()}
    parameters = {**dict(model.named_parameters()), **traced.loss_parameters}
    trained = [parameters[id] for id in traced.gradients]

    def put_back() -> None:
        state.restore()
        with torch.no_grad():
            for id, tensor in written.items():
                tensor.copy_(kept[id])

    def again() -> None:
        put_back()
        device.set_random_state(random)

    def left() -> dict[str, Tensor]:
        return {**written, **dict(model.named_buffers())}  # A buffer may be another tensor now.

    def between(value: Tensor) -> None:
        losses.append(value.detach())
        note_left()

    def note_left() -> None:
        now = left()
        for id in written:
            seen.note(id, now[id].clone() if seen.whole else now[id])
        there = [(one.path, tensor) for one in traced.kept if one.refs for tensor in parts_of(one.get()).tensors]
        for what, (_, tensor) in zip(_numbered([path for path, _ in there]), there, strict=True):
            seen.note(what, tensor.clone() if seen.whole else tensor)

    losses: list[Tensor] = []
    step = Step(
        forward=lambda: loss(model(*inputs), *targets),
        between=between,
        again=again,
        trained=trained,
        written=lambda: [(id(tensor), tensor._version) for tensor in left().values()],
        held=held,
    )
    try:
        with torch.enable_grad():
            if backward_in_pieces(step, limit_bytes) == 1:
                note_left()
        seen.note("the loss", losses[-1])
        for id_, one in zip(traced.gradients, trained, strict=True):
            seen.note(_of(id_), torch.zeros_like(one) if one.grad is None else one.grad)
    finally:
        put_back()
    return losses[-1]


def digest(tensor: Tensor) -> bytes:
    """Of its numbers, type and shape."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = plain.view(torch.uint8).numpy().data if plain.numel() else b""
    made = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest_size=16, usedforsecurity=False)
    made.update(data)
    return made.digest()
