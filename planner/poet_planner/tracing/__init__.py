# SPDX-License-Identifier: Apache-2.0
"""From any PyTorch module to its joint forward and backward graph, and that graph executed under a schedule.

capture (make_fx) → fold (views, aliases, versions) → split → prune → naming; each is a file. They make a
`poet_runtime.traced_graph.TracedGraph`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_runtime.nested import apart, fixed_in, tensors_in, with_tensors
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from poet_planner.tracing.capture import Share, Way, capture, capture_forward
from poet_planner.tracing.evaluating import evaluating
from poet_planner.tracing.fold import fold
from poet_planner.tracing.naming import name as named
from poet_planner.tracing.one_sample import one_sample
from poet_planner.tracing.prune import prune
from poet_planner.tracing.recurrent import with_last_states
from poet_planner.tracing.refusals import refuse_writes
from poet_planner.tracing.saved import with_little
from poet_planner.tracing.snapshot import Snapshot
from poet_planner.tracing.split import split
from poet_planner.tracing.unfit import refuse_unfit


def trace(
    module: nn.Module,
    inputs: Sequence[Any],
    targets: Sequence[Any],
    loss: Callable[..., Tensor],
    name: str,
    device: str = "cpu",
    data: bool = True,
    ways: set[Way] | None = None,
    segments: int = 0,
    keeps: bool = False,
) -> TracedGraph:
    """The training step ``loss(module(*inputs), *targets)`` and its gradients as a graph.

    Parameters
    ----------
    inputs, targets : sequences
        As a :class:`poet_planner.models.Model` has them. Their tensors are those of an example, number by number; what
        else is there is the same in every step.
    device : str
        Where all tensors have to be.
    data : bool
        Whether it is traced over the example's data, too, in the memory of a forward pass. Without, a library that asks
        whether its tensors are fake may take another way, unless an earlier trace was ``shown_by_fakes``.
    segments : int
        For a microcontroller: recurrent layers are operators of poet's own, with its bits and not eager PyTorch's, over
        so many segments of their steps. 0: they are PyTorch's.
    keeps : bool
        Whether what the step leaves in Python is among its results.

    Raises
    ------
    UserError
        If the module cannot be traced; the message says why.
    """
    given, wanted = tensors_in(inputs, f"{name}: inputs"), tensors_in(targets, f"{name}: targets")
    refuse_unfit(name, module, (*given, *wanted), device)
    whole = loss.loss if isinstance(loss, Share) else loss
    if isinstance(whole, nn.Module):
        refuse_unfit(f"{name}: loss", whole, (), device)

    def run(module: nn.Module, given: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
        batch = with_tensors(inputs, given), with_tensors(targets, wanted)
        value = loss(module(*batch[0]), *batch[1])
        refuse_writes(batch, (inputs, targets), (*given, *wanted))
        return value

    def run_eagerly() -> None:
        before = Snapshot(module, loss, inputs, targets)
        try:
            with_little(lambda: run(module, given, wanted))
        finally:
            before.restore()

    tensors = apart((*given, *wanted), (*module.parameters(), *module.buffers()))
    with in_eagers_words(name, run_eagerly):
        parts = tensors[: len(given)], tensors[len(given) :]
        captured = capture(module, *parts, run, whole, data, ways, segments, keeps)
        folded = with_last_states(fold(captured, name)) if segments else fold(captured, name)
    layers = {path: type(child).__name__ for path, child in module.named_modules()}
    graph = named(prune(split(folded)))
    fixed = fixed_in((inputs, targets))
    frozen = _frozen(graph, module)
    labels = zip((one.id for one in graph.residents if one.kind is Kind.TARGET), wanted, strict=True)
    trained = {id for id, parameter in module.named_parameters() if parameter.requires_grad}
    return replace(
        graph,
        fixed=fixed,
        layers=layers,
        frozen=frozen,
        without_gradient=frozenset(trained & frozen.keys()),
        ranges={id: _range(one) for id, one in labels if _are_labels(one)},
        device=device,
        shown_by_fakes=captured.shown_by_fakes,
        lets_go=captured.lets_go,
    )


def trace_forward(
    module: nn.Module, inputs: Sequence[Any], name: str, others: Iterable[str] = (), segments: int = 1
) -> TracedGraph:
    """The forward pass of one sample in evaluation mode as a graph without gradients.

    Nothing of it is trained: all parameters and buffers that it reads are its ``frozen``. ``inputs`` are as `trace`
    takes them; their first axis counts samples. ``others`` are ids that are taken by what lies beside it. ``segments``
    are as `trace` takes them.

    Raises
    ------
    UserError
        If the module cannot be traced, its output is not one tensor, or the first axis does not count samples; the
        message says why.
    """
    refuse_unfit(name, module, tensors_in(inputs, f"{name}: inputs"))

    def run(module: nn.Module, given: Sequence[Tensor]) -> Tensor:
        return module(*with_tensors(inputs, given))  # type: ignore[no-any-return]

    def run_eagerly() -> None:
        before = Snapshot(module, inputs)
        try:
            module.eval()(*inputs)
        finally:
            before.restore()

    with in_eagers_words(name, run_eagerly), evaluating(module):
        inputs = one_sample(module, inputs, name)
        given = apart(tensors_in(inputs), (*module.parameters(), *module.buffers()))
        captured = capture_forward(module, given, run, segments)
        graph = named(prune(with_last_states(fold(captured, name))), others)
    layers = {path: type(child).__name__ for path, child in module.named_modules()}
    return replace(graph, frozen=_frozen(graph, module), layers=layers)


def _are_labels(tensor: Tensor) -> bool:
    """Whether they are whole numbers that are there to be looked at."""
    there = tensor.device.type == "cpu" and tensor.numel() > 0 and not isinstance(tensor, FakeTensor)
    return there and tensor.dtype in (torch.int64, torch.int32)


def _range(labels: Tensor) -> tuple[int, int]:
    """By NumPy: while a plan is kept, PyTorch computes nothing."""
    numbers = labels.numpy()
    return int(numbers.min()), int(numbers.max())


def _frozen(graph: TracedGraph, module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers that operators read and no step changes."""
    read = {ref.source for operator in graph.operators for ref in operator.refs}
    tensors = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach() for name, tensor in tensors if name in read and name not in graph.changed}


@contextmanager
def in_eagers_words(name: str, eager_step: Callable[[], object]) -> Iterator[None]:
    """Within, a user's mistake ends in one line with the model's name, in eager PyTorch's words where it fails, too.

    Without data, or operator by operator, PyTorch says less of what it was doing.
    """
    try:
        with users_code(name), _fakes_keep_their_traces():
            yield
    except UserError as refusal:
        if refusal.__cause__ is not None:
            with users_code(name):
                with_little(eager_step)
        if str(refusal).startswith((f"{name}:", f"{name},", f"{name} raised")):
            raise
        raise UserError(f"{name}: {refusal}") from refusal


@contextmanager
def _fakes_keep_their_traces() -> Iterator[None]:
    """PyTorch logs a traceback of every operator that does not fit its operands."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
