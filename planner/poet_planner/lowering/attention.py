# SPDX-License-Identifier: Apache-2.0
"""Fused attention becomes what it consists of: scaled queries, two products, a softmax, and their gradients.

PyTorch's kernel for processors keeps no weights and computes them again, block by block, in its backward pass. The
firmware computes them as a value of their own: whether it is kept, paged or computed again is the planner's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any, NamedTuple

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, View, map_refs, row_major

from poet_planner.lowering.draft import added
from poet_planner.lowering.rules import Lowered, is_row_major, swapped
from poet_planner.lowering.strided_copies import layout_of, viewed
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
_FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def with_plain_attention(traced: TracedGraph) -> TracedGraph:
    """The same graph without fused attention; all stays as it is where one has dropout."""
    fused = [operator for operator in traced.operators if operator.target in (_FORWARD, _BACKWARD)]
    if not fused or not all(_can_be_split(operator, traced) for operator in fused):
        return traced
    split = _Split(traced)
    for operator in traced.operators:
        if operator.target is _FORWARD:
            split.forward(operator)
        elif operator.target is _BACKWARD:
            split.backward(operator)
        else:
            split.operators.append(operator)
    return split.graph()


def weights_of_attention(operator: TracedOperator, traced: TracedGraph) -> Lowered | None:
    """The softmax of attention with dropout, which PyTorch takes apart itself.

    PyTorch's leaves rows of which nothing is seen at 0. After a product there are none; after a mask there may be.
    """
    if operator.target is not aten._safe_softmax.default:
        return None
    scores, axis = operator.args[:2]
    makers = [other.target for other in traced.operators if scores.source in other.values]
    if makers not in ([aten.bmm.default], [aten.mm.default]) or axis % len(scores.shape) != len(scores.shape) - 1:
        return None
    rows = {"m": prod(scores.shape[:-1]), "n": scores.shape[-1]}
    return Lowered("softmax", rows, (scores,), operator.values)


class _Attention(NamedTuple):
    """What the backward pass needs of the forward pass: row-major tensors, the queries scaled."""

    query: Ref
    key: Ref
    value: Ref
    weights: Ref


class _Split:
    """Operators and values of the graph in the making.

    A result that PyTorch stores with its axes in another order is row-major here, if all its readers can see it so.
    Otherwise it is copied, to a value whose axes have that order, and seen through a permutation.
    """

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self._shapes = {resident.id: resident.shape for resident in traced.residents}
        self._shapes |= {id: value.shape for id, value in traced.values.items()}
        self._values = dict(traced.values)
        self._permuted: dict[str, View] = {}
        self._straightened: set[str] = set()
        self._readers: dict[str, list[Ref]] = {}
        for operator in traced.operators:
            for ref in operator.refs:
                self._readers.setdefault(ref.source, []).append(ref)
        self._computed: dict[str, _Attention] = {}
        self.operators: list[TracedOperator] = []

    def forward(self, operator: TracedOperator) -> None:
        given = bound_arguments(operator.target, operator.args, operator.kwargs)
        (output, _) = operator.outputs
        assert output is not None
        query = self._emit(operator, "query", aten.mul.Scalar, given["query"].shape, given["query"], _scale(given))
        key, value = (self._plain(operator, name, given[name]) for name in ("key", "value"))
        scores = self._product(operator, "scores", query, swapped(key))
        mask = self._mask(operator, given, scores)
        if mask is not None:
            scores = self._emit(operator, "masked", aten.add.Tensor, scores.shape, scores, mask)
        weights = self._emit(operator, "weights", aten._softmax.default, scores.shape, scores, -1, False)
        self._computed[output] = _Attention(query, key, value, weights)
        self._yield(output, self._product(operator, "product", weights, value))

    def backward(self, operator: TracedOperator) -> None:
        given = bound_arguments(operator.target, operator.args, operator.kwargs)
        query, key, value, weights = self._computed[given["out"].source]
        wants_query, wants_key, wants_value = operator.outputs
        gradient = self._plain(operator, "gradient", given["grad_out"])
        if wants_value:
            self._yield(wants_value, self._product(operator, "value", swapped(weights), gradient))
        if not wants_query and not wants_key:
            return
        of_weights = self._product(operator, "weights", gradient, swapped(value))
        softmax = aten._softmax_backward_data.default
        scores = self._emit(operator, "scores", softmax, weights.shape, of_weights, weights, -1, torch.float32)
        if wants_key:
            self._yield(wants_key, self._product(operator, "key", swapped(scores), query))
        if wants_query:
            unscaled = self._product(operator, "unscaled", scores, key)
            self._yield(
                wants_query, self._emit(operator, "query", aten.mul.Scalar, query.shape, unscaled, _scale(given))
            )

    def graph(self) -> TracedGraph:
        """What has been made, every reader seeing the new values as it saw the old ones."""
        return replace(
            self._traced,
            operators=tuple(
                replace(o, args=map_refs(o.args, self._seen), kwargs=map_refs(o.kwargs, self._seen))
                for o in self.operators
            ),
            values=self._values,
            gradients={parameter: self._seen(ref) for parameter, ref in self._traced.gradients.items()},
            loss=self._seen(self._traced.loss),
        )

    def _mask(self, operator: TracedOperator, given: dict[str, Any], scores: Ref) -> Ref | None:
        if not given["is_causal"]:
            mask: Ref | None = given["attn_mask"]
            return mask
        corner = scores.shape[-2:]
        full = self._emit(operator, "full", aten.full.default, corner, list(corner), -inf)
        return self._emit(operator, "mask", aten.triu.default, corner, full, 1)

    def _plain(self, operator: TracedOperator, name: str, ref: Ref) -> Ref:
        """The tensor, copied unless it is a whole one that lies row by row."""
        if is_row_major(ref.shape, ref.stride) and prod(ref.shape) == prod(self._shapes[ref.source]):
            return ref
        return self._emit(operator, name, aten.clone.default, ref.shape, ref)

    def _product(self, operator: TracedOperator, name: str, a: Ref, b: Ref) -> Ref:
        return self._emit(operator, name, aten.matmul.default, (*a.shape[:-1], b.shape[-1]), a, b)

    def _emit(self, fused: TracedOperator, name: str, target: Any, shape: tuple[int, ...], *args: Any) -> Ref:
        """A part of a fused operator, and its row-major result."""
        id = added(fused.id, name)
        self.operators.append(
            TracedOperator(id, target, args, {}, (id,), fused.backward, fused.module, recomputable=fused.recomputable)
        )
        self._values[id] = TracedValue(id, 4 * prod(shape), shape, torch.float32, row_major(shape))
        return Ref(id, (), shape, row_major(shape), torch.float32)

    def _yield(self, id: str, made: Ref) -> None:
        """Lets what the last operator has made be the fused operator's result, in that one's layout."""
        value = self._values[id]
        last = self.operators.pop()
        if is_row_major(value.shape, value.stride) or self._can_be_straightened(value):
            del self._values[made.source]
            self.operators.append(replace(last, id=id, outputs=(id,)))
            self._values[id] = replace(value, stride=made.stride)
            self._straightened.add(id)
            return
        order = _order(value)
        stored = View(aten.permute.default, (list(order),))
        shape = tuple(value.shape[axis] for axis in order)
        stride = tuple(made.stride[axis] for axis in order)
        copied = Ref(made.source, (stored,), shape, stride, made.dtype)
        copy = replace(last, id=id, target=aten.clone.default, args=(copied,), outputs=(id,))
        self.operators += [last, copy]
        self._values[id] = replace(value, shape=shape, stride=row_major(shape))
        self._permuted[id] = View(aten.permute.default, ([order.index(axis) for axis in range(len(order))],))

    def _can_be_straightened(self, value: TracedValue) -> bool:
        return not value.resident and all(_sees(ref, value.shape) for ref in self._readers.get(value.id, ()))

    def _seen(self, ref: Ref) -> Ref:
        if ref.source in self._permuted:
            return replace(ref, views=(self._permuted[ref.source], *ref.views))
        if ref.source in self._straightened:
            return replace(ref, stride=viewed(ref, self._values[ref.source].shape).stride())
        return ref


def _can_be_split(operator: TracedOperator, traced: TracedGraph) -> bool:
    """Whether there is no dropout, a head of keys for each of queries, and no gap in a result."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    heads = {given[name].shape[:2] for name in ("query", "key", "value")}
    results = operator.outputs if operator.target is _BACKWARD else operator.outputs[:1]
    values = [traced.values[id] for id in results if id is not None]
    return not given["dropout_p"] and len(heads) == 1 and all(_lies_without_gaps(value) for value in values)


def _lies_without_gaps(value: TracedValue) -> bool:
    order = _order(value)
    return is_row_major([value.shape[axis] for axis in order], [value.stride[axis] for axis in order])


def _sees(ref: Ref, shape: Sequence[int]) -> bool:
    """Whether the views apply to a row-major tensor as well; one by strides looks at the storage as it is."""
    by_strides = any(view.target is aten.as_strided.default for view in ref.views)
    return not by_strides and layout_of(ref, shape) is not None


def _order(value: TracedValue) -> list[int]:
    """Axes from the outermost in memory to the innermost."""
    return sorted(range(len(value.shape)), key=lambda axis: -value.stride[axis])


def _scale(given: dict[str, Any]) -> float:
    scale: float | None = given["scale"]
    return given["query"].shape[-1] ** -0.5 if scale is None else scale
