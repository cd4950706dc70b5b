# SPDX-License-Identifier: Apache-2.0
"""Fused attention becomes scaled queries, two products, a softmax, and their gradients.

PyTorch's kernel for processors keeps no weights and computes them again, block by block, in its backward pass. The
firmware computes them as a value of their own: whether it is kept, paged or computed again is the planner's choice.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import Any, NamedTuple

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator

from poet_planner.lowering.operators.rules import Lowered, is_row_major, swapped
from poet_planner.lowering.rewrites.rewriting import CLONE, Rewriting
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
    return split.by({_FORWARD: split.forward, _BACKWARD: split.backward})


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


class _Split(Rewriting):
    """Attention in parts, whose results are row-major."""

    def __init__(self, traced: TracedGraph) -> None:
        super().__init__(traced)
        self._shapes = {resident.id: resident.shape for resident in traced.residents}
        self._shapes |= {id: value.shape for id, value in traced.values.items()}
        self._computed: dict[str, _Attention] = {}

    def forward(self, operator: TracedOperator, given: dict[str, Any]) -> bool:
        (output, _) = operator.outputs
        assert output is not None
        query = self.emit(operator, "query", given["query"].shape, aten.mul.Scalar, given["query"], _scale(given))
        key, value = (self._plain(operator, name, given[name]) for name in ("key", "value"))
        scores = self._product(operator, "scores", query, swapped(key))
        mask = self._mask(operator, given, scores)
        if mask is not None:
            scores = self.emit(operator, "masked", scores.shape, aten.add.Tensor, scores, mask)
        weights = self.emit(operator, "weights", scores.shape, aten._softmax.default, scores, -1, False)
        self._computed[output] = _Attention(query, key, value, weights)
        self._yield(output, self._product(operator, "product", weights, value))
        return True

    def backward(self, operator: TracedOperator, given: dict[str, Any]) -> bool:
        query, key, value, weights = self._computed[given["out"].source]
        wants_query, wants_key, wants_value = operator.outputs
        gradient = self._plain(operator, "gradient", given["grad_out"])
        if wants_value:
            self._yield(wants_value, self._product(operator, "value", swapped(weights), gradient))
        if not wants_query and not wants_key:
            return True
        of_weights = self._product(operator, "weights", gradient, swapped(value))
        softmax = aten._softmax_backward_data.default
        scores = self.emit(operator, "scores", weights.shape, softmax, of_weights, weights, -1, torch.float32)
        if wants_key:
            self._yield(wants_key, self._product(operator, "key", swapped(scores), query))
        if wants_query:
            unscaled = self._product(operator, "unscaled", scores, key)
            self._yield(
                wants_query, self.emit(operator, "query", query.shape, aten.mul.Scalar, unscaled, _scale(given))
            )
        return True

    def _mask(self, operator: TracedOperator, given: dict[str, Any], scores: Ref) -> Ref | None:
        if not given["is_causal"]:
            mask: Ref | None = given["attn_mask"]
            return mask
        corner = scores.shape[-2:]
        full = self.emit(operator, "full", corner, aten.full.default, list(corner), -inf)
        return self.emit(operator, "mask", corner, aten.triu.default, full, 1)

    def _plain(self, operator: TracedOperator, name: str, ref: Ref) -> Ref:
        """The tensor, copied unless it is a whole one that lies row by row."""
        if is_row_major(ref.shape, ref.stride) and prod(ref.shape) == prod(self._shapes[ref.source]):
            return ref
        return self.emit(operator, name, ref.shape, CLONE, ref)

    def _product(self, operator: TracedOperator, name: str, a: Ref, b: Ref) -> Ref:
        return self.emit(operator, name, (*a.shape[:-1], b.shape[-1]), aten.matmul.default, a, b)

    def _yield(self, id: str, made: Ref) -> None:
        """Lets what the last operator has made be the fused operator's result."""
        del self.values[made.source]
        self.operators.append(replace(self.operators.pop(), id=id, outputs=(id,)))


def _can_be_split(operator: TracedOperator, traced: TracedGraph) -> bool:
    """Whether there is no dropout, a head of keys for each of queries, and results are row-major."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    heads = {given[name].shape[:2] for name in ("query", "key", "value")}
    results = operator.outputs if operator.target is _BACKWARD else operator.outputs[:1]
    values = [traced.values[id] for id in results if id is not None]
    in_order = all(is_row_major(value.shape, value.stride) for value in values)
    return not given["dropout_p"] and len(heads) == 1 and in_order


def _scale(given: dict[str, Any]) -> float:
    scale: float | None = given["scale"]
    return given["query"].shape[-1] ** -0.5 if scale is None else scale
