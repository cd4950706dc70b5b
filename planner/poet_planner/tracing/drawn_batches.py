# SPDX-License-Identifier: Apache-2.0
"""Batches of an example's form with other numbers, of the kinds that its step admits.

Of an example only the form counts: it may be zeros, of one class, or twice the same, and hides what a step does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import Kind, Ref, TracedGraph
from torch import Generator, Tensor

from poet_planner.models import Model
from poet_planner.tracing.schema import bound_arguments

Batch = tuple[tuple[Any, ...], tuple[Any, ...]]
Draw = Callable[[Generator], Tensor]

aten = torch.ops.aten
# Where operators take an index from, and along which axis of `self` (or of a weight) it goes.
_INDEXING: dict[Any, tuple[str, str | int]] = {
    aten.embedding: ("indices", 0),
    aten._embedding_bag: ("indices", 0),
    aten.nll_loss_forward: ("target", -1),
    aten.nll_loss2d_forward: ("target", 1),
    aten.multi_margin_loss: ("target", -1),
    **dict.fromkeys((aten.gather, aten.index_select, aten.index_add, aten.scatter, aten.scatter_add), ("index", "dim")),
}
_SAME_NUMBERS = (aten._to_copy, aten.clone)
_USUALLY_IGNORED = -100
_COMPARING = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
_MOST = 4


def drawn_batches(
    model: Model, traced: TracedGraph, seed: int = 0, often: tuple[int, float] | None = None
) -> Iterator[Batch]:
    """Some, from the boldest to the most careful: at one the step may raise what it likes.

    ``often``: in the place of every other number of that tensor of the batch there is this one.
    """
    batch = (tuple(model.inputs), tuple(model.targets))
    ids = [one.id for one in traced.residents if one.kind in (Kind.INPUT, Kind.TARGET)]
    admitted = _admitted(traced)
    draws = [_draws(tensor.detach(), admitted.get(id)) for id, tensor in zip(ids, tensors_in(batch), strict=True)]
    generator = torch.Generator().manual_seed(seed)
    for number in range(max(map(len, draws), default=0)):
        tensors = [ways[min(number, len(ways) - 1)](generator) for ways in draws]
        if often is not None:
            tensors[often[0]] = _with_often(tensors[often[0]], often[1], generator)
        yield with_tensors(batch, tensors)


def compared_with(traced: TracedGraph) -> list[float]:
    """What numbers a step compares with: they may stand for padding, or for what is missing."""
    found = [0.0]
    for operator in traced.operators:
        packet = getattr(operator.target, "overloadpacket", None)
        if packet is aten.isnan:
            found.append(math.nan)
        elif packet in _COMPARING and isinstance(operator.args[1], int | float):
            found.append(float(operator.args[1]))
    return [*dict.fromkeys(found)][:_MOST]


def _with_often(drawn: Tensor, number: float, generator: Generator) -> Tensor:
    if drawn.dtype is torch.bool or (number == 0 if drawn.is_floating_point() else number != number):
        return drawn
    return drawn.where(_coins(drawn)[0](generator) > 0, torch.tensor(number).to(drawn))


def _draws(example: Tensor, admitted: tuple[int, int | None] | None) -> list[Draw]:
    if not example.numel() or example.is_complex() or not example.isfinite().all():  # a mask that is added, say
        return [lambda _: example.clone()]
    if example.is_floating_point():
        return _floats(example)
    if example.dtype is torch.bool:
        return _coins(example)
    low, high = int(example.min()), int(example.max())
    if admitted is not None:
        below, ignored = admitted
        may_be_ignored = ignored is not None and (ignored != _USUALLY_IGNORED or low == ignored)
        return [partial(_indices, example, below, ignored if may_be_ignored else None)]
    if low < high:
        return [partial(_between, example, low, high)]
    # Of one number nobody can tell what others there are; a length, say, is none below 1.
    return [partial(_between, example, least, max(high, 1)) for least in (min(low, 0), max(low // 2, 1))]


def _floats(example: Tensor) -> list[Draw]:
    low, high = float(example.min()), float(example.max())
    whole = bool((example == example.round()).all())
    sums = (axis for axis in range(1, example.dim()) if example.shape[axis] > 1)
    axis = next((axis for axis in sums if low >= 0 and (example.sum(axis) - 1).abs().max() < 1e-3), None)
    if axis is not None:
        return [partial(_adding_up, example, axis, whole)]
    if low == high:
        return [partial(_around, example), *_coins(example), partial(_within, example, 0.0, 1.0)]
    if whole and (low, high) == (0, 1):
        return _coins(example)
    return [partial(_around, example), partial(_within, example, low, high)]


def _around(example: Tensor, generator: Generator) -> Tensor:
    """Numbers of the example's size, or of 1: a relu may hide smaller ones."""
    scale = max(1.0, float(example.double().std(correction=0)))
    return (float(example.double().mean()) + scale * torch.randn(example.shape, generator=generator)).to(example)


def _within(example: Tensor, low: float, high: float, generator: Generator) -> Tensor:
    return (low + (high - low) * torch.rand(example.shape, generator=generator)).to(example)


def _adding_up(example: Tensor, axis: int, whole: bool, generator: Generator) -> Tensor:
    """Shares that add up to 1 along an axis, to the last bit: of one alone, or of all."""
    shares = torch.randn(example.shape, generator=generator).softmax(axis)
    largest = (shares == shares.amax(axis, keepdim=True)).to(example)
    shares = torch.zeros_like(largest) if whole else (shares * 64).floor() / 64
    return shares + largest * (1 - shares.sum(axis, keepdim=True))


def _coins(example: Tensor) -> list[Draw]:
    """Zeros and ones: any, and such that no row, as of a mask, is of zeros alone."""

    def tossed(least: int, generator: Generator) -> Tensor:
        coins = torch.rand(example.shape, generator=generator) < 0.5
        coins.view(-1, coins.shape[-1] if coins.dim() else 1)[:, :least] = True
        return coins.to(example)

    return [partial(tossed, least) for least in (0, 1)]


def _between(example: Tensor, low: int, high: int, generator: Generator) -> Tensor:
    return torch.randint(low, high + 1, example.shape, generator=generator).to(example)


def _indices(example: Tensor, below: int, ignored: int | None, generator: Generator) -> Tensor:
    drawn = _between(example, 0, below - 1, generator)
    return drawn if ignored is None else drawn.where(_coins(example)[0](generator) > 0, ignored)


def _admitted(traced: TracedGraph) -> Mapping[str, tuple[int, int | None]]:
    """By resident below which number all operators take what it holds, and what one of them leaves out beside that."""
    made_of: dict[str, str] = {}
    found: dict[str, tuple[int, int | None]] = {}

    def bound(ref: object, below: int, ignored: int | None = None) -> None:
        if isinstance(ref, Ref):
            id = made_of.get(ref.source, ref.source)
            least, other = found.get(id, (below, None))
            found[id] = min(least, below), ignored if other is None else other

    for operator in traced.operators:
        packet = getattr(operator.target, "overloadpacket", None)
        if packet in _SAME_NUMBERS and isinstance(operator.args[0], Ref):
            source = operator.args[0].source
            made_of.update(dict.fromkeys(operator.values, made_of.get(source, source)))
        elif packet is aten.index:
            for axis, index in enumerate(operator.args[1]):
                bound(index, operator.args[0].shape[axis])
        elif packet in _INDEXING:
            argument, along = _INDEXING[packet]
            given = bound_arguments(operator.target, operator.args, operator.kwargs)
            shape = given["self" if "self" in given else "weight"].shape or (1,)
            bound(given[argument], shape[given[along] if isinstance(along, str) else along], given.get("ignore_index"))
    return found
