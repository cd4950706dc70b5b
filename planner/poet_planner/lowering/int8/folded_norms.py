# SPDX-License-Identifier: Apache-2.0
"""A frozen batch norm becomes part of the frozen convolution, or linear layer, before it.

In evaluation mode a batch norm multiplies each channel by one number and adds another. Where all of them are constants,
and the layer's weights are, too, the products are made here, in double precision:

    scale = gamma / sqrt(variance + eps)        weight' = scale * weight        bias' = beta + scale * (bias - mean)

What was two operators is then one, named after the batch norm, whose value it yields. So are, on the way back, the
batch norm's input gradient and the layer's: one operator, named after the layer's, with the same new weight.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Kind, Ref, TracedGraph, TracedOperator, TracedResident
from torch import Tensor

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import is_row_major
from poet_planner.tracing.schema import bound_arguments, position

aten = torch.ops.aten
_NORM = aten.native_batch_norm.default
_NORM_BACKWARD = aten.native_batch_norm_backward.default
_CONVOLUTION = aten.convolution.default
_CONVOLUTION_BACKWARD = aten.convolution_backward.default
_WITH_BIAS = aten.addmm.default
_PRODUCT = aten.mm.default
_TENSORS = ("weight", "bias", "running_mean", "running_var")


def with_folded_norms(traced: TracedGraph) -> TracedGraph:
    """The same graph with every batch norm folded that can be."""
    folding = _Folding(traced)
    operators = tuple(folding.folded(operator) for operator in traced.operators)
    gone = {id for operator in traced.operators if operator.id in folding.swallowed for id in operator.values}
    return replace(
        traced,
        operators=tuple(operator for operator in operators if operator.id not in folding.swallowed),
        values={id: value for id, value in traced.values.items() if id not in gone},
        residents=(*traced.residents, *folding.residents),
        constants={**traced.constants, **folding.constants},
    )


@dataclass(frozen=True)
class _Layer:
    """Operands of a convolution or a linear layer."""

    x: Ref
    weight: Ref
    bias: Ref | None


class _Folding:
    """``swallowed`` are the operators that another one has taken in; ``constants`` the new weights and biases."""

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self._makers = {id: operator for operator in traced.operators for id in operator.values}
        self._readers = Counter(ref.source for operator in traced.operators for ref in operator.refs)
        self._readers.update([traced.loss.source, *(ref.source for ref in traced.gradients.values())])
        self._weights: dict[tuple[Any, ...], str] = {}
        self.swallowed: set[str] = set()
        self.constants: dict[str, Tensor] = {}
        self.residents: list[TracedResident] = []

    def folded(self, operator: TracedOperator) -> TracedOperator:
        """The operator with what it can take in."""
        if operator.target is _NORM:
            return self._forward(operator)
        if operator.target in (_CONVOLUTION_BACKWARD, _PRODUCT) and operator.backward:
            return self._backward(operator)
        return operator

    def _forward(self, norm: TracedOperator) -> TracedOperator:
        given = bound_arguments(norm.target, norm.args, norm.kwargs)
        before = self._taken(given["input"])
        layer = _layer(before) if before and not given["training"] else None
        id = norm.outputs[0]
        if before is None or layer is None or id is None or not self._is_constant(layer, given):
            return norm
        if self._traced.values[id].stride != self._traced.values[before.values[0]].stride:
            return norm
        weight, bias = self._products(norm.id, layer, given)
        self.swallowed.add(before.id)
        self._weights[_key(layer.weight, given)] = weight.id
        return replace(_with_weights(before, weight, bias), id=norm.id, module=norm.module, outputs=(id,))

    def _is_constant(self, layer: _Layer, norm: dict[str, Any]) -> bool:
        """Whether everything is but the layer's input, and has a number, or a row of weights, for each output."""
        vectors = [ref for ref in (layer.bias, *(norm[name] for name in _TENSORS)) if ref is not None]
        constants = self._traced.constants
        if not all(ref.source in constants and ref.dtype == torch.float32 for ref in (layer.weight, *vectors)):
            return False
        weight = constants[layer.weight.source]
        return lies_by_outputs(layer.weight, weight) and all(
            ref.shape == tuple(constants[ref.source].shape) == (weight.shape[0],) for ref in vectors
        )

    def _products(self, norm: str, layer: _Layer, given: dict[str, Any]) -> tuple[TracedResident, TracedResident]:
        """The new weight and bias, as constants."""
        weight = self._data(layer.weight)
        gamma, beta, mean, variance = (self._data(given[name]) for name in _TENSORS)
        scale = (1.0 if gamma is None else gamma) / torch.sqrt(variance + given["eps"])
        bias = (0.0 if beta is None else beta) + scale * ((self._data(layer.bias) if layer.bias else 0.0) - mean)
        scaled = weight * scale.reshape(-1, *(1,) * (weight.dim() - 1))
        return self._add(added(norm, "weight"), scaled), self._add(added(norm, "bias"), bias)

    def _add(self, id: str, data: Tensor) -> TracedResident:
        self.constants[id] = data.to(torch.float32).contiguous()
        resident = TracedResident(id, Kind.CONSTANT, 4 * data.numel(), tuple(data.shape), torch.float32)
        self.residents.append(resident)
        return resident

    def _backward(self, operator: TracedOperator) -> TracedOperator:
        """A layer's input gradient after a batch norm's, where the way forward has made the weight for both."""
        gy, weight = operator.args[0], operator.args[_weight_place(operator)]
        norm = self._taken(gy)
        if norm is None or norm.target is not _NORM_BACKWARD or not isinstance(weight, Ref):
            return operator
        given = bound_arguments(norm.target, norm.args, norm.kwargs)
        if given["train"] or not _yields_input_alone(norm) or not _yields_input_alone(operator):
            return operator
        made = self._weights.get(_key(weight, given))
        if made is None or given["grad_out"].shape != gy.shape:
            return operator
        self.swallowed.add(norm.id)
        args = list(operator.args)
        args[0], args[_weight_place(operator)] = given["grad_out"], replace(weight, source=made)
        return replace(operator, args=tuple(args))

    def _taken(self, operand: Any) -> TracedOperator | None:
        """The operator whose only result this is, read by nobody else and as it lies."""
        if not isinstance(operand, Ref) or operand.views or self._readers[operand.source] != 1:
            return None
        maker = self._makers.get(operand.source)
        return maker if maker is not None and maker.values == (operand.source,) else None

    def _data(self, ref: Ref | None) -> Any:
        return None if ref is None else self._traced.constants[ref.source].to(torch.float64)


def _layer(operator: TracedOperator) -> _Layer | None:
    """A convolution's or a linear layer's operands; None for any other operator."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    if operator.target is _CONVOLUTION and not given["transposed"]:
        layer = _Layer(given["input"], given["weight"], given["bias"])
    elif operator.target is _WITH_BIAS and given["beta"] == given["alpha"] == 1:
        layer = _Layer(given["mat1"], given["mat2"], given["self"])
    elif operator.target is _PRODUCT:
        layer = _Layer(given["self"], given["mat2"], None)
    else:
        return None
    return layer if len(layer.x.shape) == len(layer.weight.shape) else None


def lies_by_outputs(weight: Ref, data: Tensor) -> bool:
    """Whether an operator sees a weight (outputs, …) as it lies, in any shape, or a matrix of it transposed."""
    if not data.is_contiguous() or not data.dim():
        return False
    if is_row_major(weight.shape, weight.stride) and weight.shape[:1] == data.shape[:1]:
        return prod(weight.shape) == data.numel()
    matrix = data.reshape(len(data), -1)
    return weight.shape == tuple(matrix.shape)[::-1] and weight.stride == matrix.stride()[::-1]


def _with_weights(layer: TracedOperator, weight: TracedResident, bias: TracedResident) -> TracedOperator:
    """The same layer with another weight, and a bias."""
    with_bias = Ref(bias.id, (), bias.shape, (1,), bias.dtype)
    args = list(layer.args)
    place = _weight_place(layer)
    args[place] = replace(args[place], source=weight.id)
    if layer.target is _CONVOLUTION:
        args[position(layer.target, "bias")] = with_bias
        return replace(layer, args=tuple(args))
    x, matrix = args[-2:]
    return replace(layer, target=_WITH_BIAS, args=(with_bias, x, matrix))


def _weight_place(layer: TracedOperator) -> int:
    """Position of the weight among the arguments."""
    names = [argument.name for argument in layer.target._schema.arguments]
    return names.index("weight" if "weight" in names else "mat2")


def _yields_input_alone(operator: TracedOperator) -> bool:
    """Whether a backward operator yields the input's gradient and none of a parameter."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    return list(given.get("output_mask", (True, False, False))) == [True, False, False]


def _key(weight: Ref, norm: dict[str, Any]) -> tuple[Any, ...]:
    """What a layer's new weight follows from."""
    gamma = norm["weight"]
    return weight.source, gamma and gamma.source, norm["running_var"].source, norm["eps"]
