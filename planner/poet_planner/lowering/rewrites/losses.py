# SPDX-License-Identifier: Apache-2.0
"""Losses by labels, with class weights or rows left out, in words of `gather`.

The plain mean over rows of a label each stays as it is. A label that the loss ignores counts where it names a class, or
occurs in the example; any other ends in an error on a board, so that no mask is needed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import torch
from poet_runtime import gathering  # noqa: F401  registers operators
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, View

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import MEAN, is_row_major
from poet_planner.lowering.rewrites.constants import constant_data
from poet_planner.lowering.rewrites.rewriting import CLONE, Rewriting
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
GATHER, GATHER_BACKWARD = torch.ops.poet.gather.default, torch.ops.poet.gather_backward.default
NONE = 0
_PLAIN = aten.nll_loss_forward.default, aten.nll_loss_backward.default
_ZEROS = (aten.new_zeros.default, aten.zeros.default, aten.zeros_like.default)
_COPIES = (aten.clone.default, aten._to_copy.default)
_Given = dict[str, Any]


def with_plain_losses(traced: TracedGraph) -> TracedGraph:
    """The same graph, in which numbers are taken by labels in one way alone."""
    rewriting = _Losses(traced)
    return rewriting.without_unread_masks(
        rewriting.by({target: partial(rule, rewriting) for target, rule in _RULES.items()})
    )


@dataclass(frozen=True)
class _Mask:
    """Which labels are the ignored one; ``never`` if that does not occur, ``negated`` where it is the others."""

    labels: Ref
    ignored: int
    never: bool
    negated: bool = False


class _Losses(Rewriting):
    """What has been seen of a graph; ``never`` are labels, and one that they are compared with that does not occur.

    ``masks`` are by id; ``counts`` how many rows one is true for, where that is known beforehand; ``filled`` labels
    with another in place of the ignored one, and the mask. ``weights`` are of each label, and their sum, by the id of
    that sum in PyTorch; None where all count 1.
    """

    def __init__(self, traced: TracedGraph) -> None:
        super().__init__(traced)
        self.masks: dict[str, _Mask] = {}
        self.counts: dict[str, int] = {}
        self.filled: dict[str, tuple[Ref, str]] = {}
        self.weights: dict[str, tuple[Ref, Ref] | None] = {}
        self.zeros: set[str] = set()
        self.unread: set[str] = set()
        self.made_of: dict[str, str] = {}
        for operator in traced.operators:
            if operator.target in _ZEROS:
                self.zeros.update(operator.values)
            if operator.target in _COPIES and operator.refs:
                source = operator.refs[0].source
                self.made_of.update(dict.fromkeys(operator.values, self.made_of.get(source, source)))
        losses = (bound_arguments(o.target, o.args, o.kwargs) for o in traced.operators if o.target in _FORWARD)
        self.never = {(g["target"].source, g["ignore_index"]) for g in losses if _places(self, g)[2] is None}

    def may_occur(self, labels: Ref, ignored: int, shape: tuple[int, ...]) -> bool:
        """Whether a label is left out that names a class, or is in the example."""
        low, high = self._traced.ranges.get(self.made_of.get(labels.source, labels.source), (0, -1))
        return 0 <= ignored < shape[_axis(shape)] or low <= ignored <= high

    def holds(self, index: Ref) -> bool:
        """Whether the firmware has whole numbers: of computed ones it has floats, if any."""
        return index.source in self.filled or self.made_of.get(index.source, index.source) not in self._traced.values

    def readers(self, id: str) -> list[TracedOperator]:
        return [one for one in self._traced.operators if any(ref.source == id for ref in one.refs)]

    def constant(self, ref: Ref) -> torch.Tensor | None:
        data = constant_data(self.graph()).get(ref.source)
        return None if data is None or ref.views else data

    def in_f32(self, operator: TracedOperator, x: Ref) -> Ref:
        id = added(operator.id, "number")
        self.unread.add(id)
        convert = replace(operator, id=id, target=aten._to_copy.default, args=(x,), kwargs={"dtype": torch.float32})
        return self.put(convert, id, x.shape)

    def put_as(self, operator: TracedOperator, shape: tuple[int, ...], target: Any, *args: Any) -> bool:
        """What stands for the operator, its first result of this shape."""
        (id, *_) = operator.outputs
        assert id is not None
        value = self.put(replace(operator, target=target, args=args, kwargs={}), id, shape)
        self.aliases[id] = value
        return True

    def without_unread_masks(self, traced: TracedGraph) -> TracedGraph:
        read = {traced.loss.source, *(ref.source for ref in traced.gradients.values())}
        kept: list[TracedOperator] = []
        for operator in reversed(traced.operators):
            dropped = operator.values and self.unread.issuperset(operator.values)
            if not dropped or not read.isdisjoint(operator.values):
                kept.append(operator)
                read.update(ref.source for ref in operator.refs)
        gone = {id for operator in traced.operators for id in operator.values}
        gone -= {id for operator in kept for id in operator.values}
        values = {id: value for id, value in traced.values.items() if id not in gone}
        return replace(traced, operators=tuple(reversed(kept)), values=values)


def _axis(shape: tuple[int, ...]) -> int:
    """That of the classes."""
    return min(1, len(shape) - 1)


def _places(rewriting: _Losses, given: _Given) -> tuple[Ref, int, int | None]:
    """The labels as `gather` reads them, the axis of the classes, and the label that is left out."""
    shape, labels, ignored = given["self"].shape, given["target"], given["ignore_index"]
    index = _as_seen(labels, aten.unsqueeze.default, _axis(shape))
    return index, _axis(shape), ignored if rewriting.may_occur(labels, ignored, shape) else None


def _as_seen(ref: Ref, target: Any, *args: Any) -> Ref:
    layout = target(torch.empty_strided(ref.shape, ref.stride, device="meta"), *args)
    views = (*ref.views, View(target, args))
    return replace(ref, views=views, shape=tuple(layout.shape), stride=tuple(layout.stride()))


def _is_plain(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    """Whether the firmware has an operator for it: the mean over rows, all of one weight."""
    plain = operator.target in _PLAIN and given["weight"] is None and given["reduction"] == MEAN
    return plain and _places(rewriting, given)[2] is None


def _loss(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    x, labels, weight = given["self"], given["target"], given["weight"]
    if _is_plain(rewriting, operator, given) or x.dtype != torch.float32:
        return False
    (index, axis, ignored), total = _places(rewriting, given), operator.outputs[1]
    found = rewriting.emit(operator, "found", index.shape, GATHER, x, index, axis, ignored)
    weights, classes = None, x.shape[axis]
    if weight is not None or (ignored is not None and given["reduction"] == MEAN):
        table = weight or rewriting.emit(operator, "ones", (classes,), aten.ones.default, [classes])
        each = rewriting.emit(operator, "weights", index.shape, GATHER, table, index, 0, ignored)
        weights = each, rewriting.emit(operator, "weight", (), aten.sum.default, each)
        rewriting.unread.add(weights[1].source)
        if weight is not None:
            found = rewriting.emit(operator, "weighted", index.shape, aten.mul.Tensor, found, each)
    if total is not None:
        rewriting.weights[total] = weights
    if given["reduction"] == NONE:
        each = _as_seen(found, aten.squeeze.dim, axis)
        return rewriting.put_as(operator, labels.shape, aten.neg.default, each)
    whole = rewriting.emit(operator, "sum", (), aten.sum.default, found)
    if given["reduction"] != MEAN:
        return rewriting.put_as(operator, (), aten.neg.default, whole)
    if weights is None:
        return rewriting.put_as(operator, (), aten.div.Scalar, whole, -float(prod(labels.shape)))
    negative = rewriting.emit(operator, "negative", (), aten.neg.default, whole)
    return rewriting.put_as(operator, (), aten.div.Tensor, negative, weights[1])


def _loss_backward(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    gradient, shape, labels = given["grad_output"], given["self"].shape, given["target"]
    total = given["total_weight"].source
    if _is_plain(rewriting, operator, given) or total not in rewriting.weights:
        return False
    (index, axis, ignored), weights = _places(rewriting, given), rewriting.weights[total]
    share = rewriting.emit(operator, "share", gradient.shape, aten.neg.default, gradient)
    if given["reduction"] == NONE:
        share = _as_seen(share, aten.unsqueeze.default, axis)
    elif given["reduction"] == MEAN and weights is None:
        share = rewriting.emit(operator, "mean", (), aten.div.Scalar, share, float(prod(labels.shape)))
    elif given["reduction"] == MEAN and weights:
        share = rewriting.emit(operator, "mean", (), aten.div.Tensor, share, weights[1])
    if given["weight"] is not None and weights:
        share = rewriting.emit(operator, "weighted", index.shape, aten.mul.Tensor, weights[0], share)
    elif share.shape != index.shape:
        share = _as_seen(share, aten.expand.default, list(index.shape))
    return rewriting.put_as(operator, shape, GATHER_BACKWARD, share, index, axis, shape[axis], ignored)


def _gather(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    x, axis, index = given["self"], given["dim"], given["index"]
    if x.dtype != torch.float32 or not x.shape or not rewriting.holds(index):
        return False
    axis %= len(x.shape)
    for other, (extent, wanted) in enumerate(zip(x.shape, index.shape, strict=True)):
        if other != axis and extent != wanted:
            x = _as_seen(x, aten.slice.Tensor, other, 0, wanted)
    labels, ignored = _unfilled(rewriting, operator, index)
    return rewriting.put_as(operator, index.shape, GATHER, x, labels, axis, ignored)


def _unfilled(rewriting: _Losses, operator: TracedOperator, index: Ref) -> tuple[Ref, int | None]:
    """The labels before another took the ignored one's place, where what is found for that is made 0."""
    labels, id = rewriting.filled.get(index.source, (index, ""))
    readers = rewriting.readers(operator.values[0])
    made_0 = all(
        one.target is aten.masked_fill.Scalar
        and (one.args[1].source, one.args[1].views, one.args[2]) == (id, index.views, 0)
        for one in readers
    )
    if not id or not made_0 or not is_row_major(labels.shape, labels.stride):
        return index, None
    views = (*labels.views, *index.views)
    return replace(index, source=labels.source, views=views), rewriting.masks[id].ignored


def _scattered(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    """The gradient of `gather`."""
    x, axis, index = given["self"], given["dim"], given["index"]
    axis %= max(1, len(x.shape))
    fits = x.shape[:axis] + x.shape[axis + 1 :] == index.shape[:axis] + index.shape[axis + 1 :]
    if x.source not in rewriting.zeros or x.dtype != torch.float32 or given["src"].shape != index.shape or not fits:
        return False
    if not rewriting.holds(index):
        return False
    return rewriting.put_as(operator, x.shape, GATHER_BACKWARD, given["src"], index, axis, x.shape[axis], None)


def _of_each_row(rewriting: _Losses, x: Ref, indices: list[Ref | None]) -> Ref | None:
    """The labels of ``x[range(m), labels]``, a column of them."""
    if len(x.shape) != 2 or len(indices) != 2 or x.dtype != torch.float32:
        return None
    rows, labels = indices
    if rows is None or labels is None or labels.shape != x.shape[:1] or labels.dtype == torch.bool:
        return None
    data = rewriting.constant(rows)
    each = data is not None and torch.equal(data, torch.arange(x.shape[0], dtype=data.dtype))
    return _as_seen(labels, aten.unsqueeze.default, 1) if each else None


def _indexed(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    index = _of_each_row(rewriting, given["self"], given["indices"])
    if index is None:
        return False
    found = rewriting.emit(operator, "found", index.shape, GATHER, given["self"], index, 1, None)
    (id,) = operator.values
    rewriting.aliases[id] = _as_seen(found, aten.squeeze.dim, 1)
    del rewriting.values[id]
    return True


def _indexed_backward(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    x, shares = given["self"], given["values"]
    index = _of_each_row(rewriting, x, given["indices"]) if x.source in rewriting.zeros else None
    if index is None or not given["accumulate"] or shares.shape != x.shape[:1]:
        return False
    share = _as_seen(shares, aten.unsqueeze.default, 1)
    return rewriting.put_as(operator, x.shape, GATHER_BACKWARD, share, index, 1, x.shape[1], None)


def _compared(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    labels, ignored = given["self"], given["other"]
    if not labels.dtype.is_floating_point:
        never = (labels.source, ignored) in rewriting.never
        rewriting.masks[operator.values[0]] = _Mask(labels, ignored, never)
        rewriting.unread.update(operator.values if never else ())
    return False


def _negated(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    mask = rewriting.masks.get(given["self"].source)
    if mask is not None:
        rewriting.masks[operator.values[0]] = replace(mask, negated=not mask.negated)
        rewriting.unread.update(operator.values if mask.never else ())
    return False


def _filled(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    x, (id,) = given["self"], operator.values
    mask = rewriting.masks.get(given["mask"].source)
    if mask is None or mask.negated or rewriting.values[id].resident or x.shape != rewriting.values[id].shape:
        return False
    if mask.never and x.dtype == torch.float32 and not is_row_major(x.shape, x.stride):
        return rewriting.put_as(operator, x.shape, CLONE, x)
    if mask.never and is_row_major(x.shape, x.stride):
        rewriting.aliases[id] = x
        del rewriting.values[id]
        return True
    if not x.dtype.is_floating_point and (x, ()) == (mask.labels, given["mask"].views):
        rewriting.filled[id] = x, given["mask"].source
        rewriting.unread.add(id)
    return False


def _counted(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    """How many are true: as a number in f32, and known beforehand where no row is left out."""
    x, (id,) = given["self"], operator.values
    if x.dtype != torch.bool or given["dtype"] not in (None, torch.int64, torch.float32):
        return False
    mask = rewriting.masks.get(x.source)
    if mask is not None and mask.never and not rewriting.values[id].shape:
        rewriting.counts[id] = int(mask.negated) * prod(x.shape)
        rewriting.unread.add(id)
    args = (rewriting.in_f32(operator, x), *operator.args[1:])
    return rewriting.put_as(operator, rewriting.values[id].shape, operator.target, *args)


def _divided(rewriting: _Losses, operator: TracedOperator, given: _Given) -> bool:
    count = rewriting.counts.get(given["other"].source) if isinstance(given["other"], Ref) else None
    if count is None:
        return False
    (id,) = operator.values
    return rewriting.put_as(operator, rewriting.values[id].shape, aten.div.Scalar, given["self"], count)


_FORWARD = aten.nll_loss_forward.default, aten.nll_loss2d_forward.default
_RULES: dict[Any, Callable[[_Losses, TracedOperator, _Given], bool]] = {
    **dict.fromkeys(_FORWARD, _loss),
    aten.nll_loss_backward.default: _loss_backward,
    aten.nll_loss2d_backward.default: _loss_backward,
    aten.gather.default: _gather,
    aten.scatter_add.default: _scattered,
    aten.index.Tensor: _indexed,
    aten.index_put.default: _indexed_backward,
    aten._unsafe_index_put.default: _indexed_backward,
    aten.eq.Scalar: _compared,
    aten.bitwise_not.default: _negated,
    aten.masked_fill.Scalar: _filled,
    aten.sum.default: _counted,
    aten.sum.dim_IntList: _counted,
    aten.div.Tensor: _divided,
}
