# SPDX-License-Identifier: Apache-2.0
"""What a plan depends on of a traced step: all but the numbers among its operators' arguments.

So a step that is traced again with another momentum, rate of dropout or factor keeps its plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator

from poet_planner.torch_step.guard import settings

Structure = tuple[Any, ...]


def structure(traced: TracedGraph) -> Structure:
    """Operators with their operands, values and residents; two steps with equal ones have the same plans.

    So it holds what PyTorch is set to: other kernels allocate something else.
    """
    operators = [
        (
            *(operator.id, operator.target, *_arguments(operator), operator.outputs, operator.writes, operator.after),
            *(operator.updates, operator.random, operator.recomputable, operator.backward),
        )
        for operator in (*traced.operators, *traced.bookkeeping)
    ]
    values = [(value.id, value.shape, value.stride, value.dtype, value.resident) for value in traced.values.values()]
    gradients = [(id, _planned(ref)) for id, ref in traced.gradients.items()]
    kept = [(one.path, tuple(map(_planned, one.refs))) for one in traced.kept]
    results = gradients, _planned(traced.loss), kept
    return operators, values, traced.residents, results, [*traced.loss_parameters], settings()


def with_arguments(planned: TracedGraph, traced: TracedGraph) -> TracedGraph:
    """A step that has been planned, with the arguments and constants of one of the same structure."""
    others = {operator.id: operator for operator in (*traced.operators, *traced.bookkeeping)}

    def taken_over(operator: TracedOperator) -> TracedOperator:
        other = others.get(operator.id)
        return operator if other is None else replace(operator, args=other.args, kwargs=other.kwargs)

    return replace(
        planned,
        operators=tuple(map(taken_over, planned.operators)),
        bookkeeping=tuple(map(taken_over, planned.bookkeeping)),
        gradients={id: planned.gradients.get(id, ref) for id, ref in traced.gradients.items()},
        constants=traced.constants,
        kept=tuple(replace(one, refs=was.refs) for one, was in zip(traced.kept, planned.kept, strict=True)),
        frozen=traced.frozen,
        loss_parameters=traced.loss_parameters,
    )


def _arguments(operator: TracedOperator) -> Iterator[Any]:
    """By their names in the schema; the defaults are filled in that a trace leaves out."""
    for index, argument in enumerate(operator.target._schema.arguments):
        if index < len(operator.args) and not argument.kwarg_only:
            value = operator.args[index]
        else:
            value = operator.kwargs.get(argument.name, argument.default_value)
        if type(value) in (int, float) and isinstance(argument.type, torch.NumberType | torch.TensorType):
            value = float(value)
        yield _planned(value)


def _planned(argument: Any) -> Any:
    if isinstance(argument, Ref):
        views = tuple((view.target, view.index) for view in argument.views)
        return argument.source, argument.shape, argument.stride, argument.dtype, views
    if isinstance(argument, list | tuple):
        return tuple(map(_planned, argument))
    return float if isinstance(argument, float) else argument if isinstance(argument, Blank) else repr(argument)
