# SPDX-License-Identifier: Apache-2.0
"""Backward operators that yield input and parameter gradients together become an operator for each.

The input gradient and the weight gradient are needed at different times and from different tensors, so a schedule may
want one early and the other late. The kernels compute them apart anyway, as their ``output_mask`` says; the bias
gradient stays with the weight's. Batch norm's backward in training shares its reductions between all three and stays
whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator
from torch._ops import OpOverload

from poet_planner.tracing import schema

aten = torch.ops.aten


@dataclass(frozen=True)
class _Rule:
    """``input_ignores`` and ``parameters_ignore`` name what each half reads the shape of only.

    ``bias_ignores`` do so where of the parameters the bias alone is wanted. ``row_major`` says that halves of a
    channels-last input have to stay together.
    """

    input_ignores: tuple[str, ...] = ()
    parameters_ignore: tuple[str, ...] = ()
    bias_ignores: tuple[str, ...] = ()
    row_major: bool = False


_RULES: dict[OpOverload, _Rule] = {
    aten.convolution_backward.default: _Rule(("input",), ("weight",), bias_ignores=("input",)),
    aten.native_layer_norm_backward.default: _Rule(),
    # PyTorch's channels-last kernel writes the input's gradient even where it is not asked for: a segmentation fault.
    aten.native_group_norm_backward.default: _Rule(row_major=True),
    aten.native_batch_norm_backward.default: _Rule(input_ignores=("input",), parameters_ignore=("weight",)),
}


def split(graph: TracedGraph) -> TracedGraph:
    """The same graph with those operators split."""
    operators: list[TracedOperator] = []
    for operator in graph.operators:
        operators += _halves(operator)
    return replace(graph, operators=tuple(operators))


def _halves(operator: TracedOperator) -> list[TracedOperator]:
    rule = _RULES.get(operator.target)
    if rule is None or _shares_reductions(operator) or (rule.row_major and not _is_row_major(operator.args[0])):
        return [operator]
    place = schema.position(operator.target, "output_mask")
    mask = operator.args[place]
    parts = [
        ("input", (mask[0], False, False), rule.input_ignores),
        ("parameters", (False, *mask[1:]), rule.parameters_ignore),
    ]
    halves = []
    for suffix, wanted, ignored in parts:
        if not any(wanted):
            continue
        args = list(operator.args)
        args[place] = list(wanted)
        for name in (*ignored, *(rule.bias_ignores if wanted == (False, False, True) else ())):
            args[schema.position(operator.target, name)] = _blank(args[schema.position(operator.target, name)])
        outputs = tuple(id if keep else None for id, keep in zip(operator.outputs, wanted, strict=True))
        halves.append(replace(operator, id=f"{operator.id}.{suffix}", args=tuple(args), outputs=outputs))
    return halves


def _shares_reductions(operator: TracedOperator) -> bool:
    """Whether it is a batch norm's in training: in evaluation its halves have nothing in common."""
    if operator.target is not aten.native_batch_norm_backward.default:
        return False
    return bool(operator.args[schema.position(operator.target, "train")])


def _is_row_major(operand: Ref | Blank) -> bool:
    return torch.empty(operand.shape, device="meta").stride() == operand.stride


def _blank(operand: Ref | Blank) -> Blank:
    return Blank(operand.shape, operand.stride, operand.dtype)
