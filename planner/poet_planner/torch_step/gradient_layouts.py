# SPDX-License-Identifier: Apache-2.0
"""Gradients in the layout that autograd gives them, as operators of the plan.

Autograd copies a gradient that lies otherwise than its parameter, one at a time. A copy that a plan knows has its
bytes counted, and what it copies goes as soon as it has been copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from poet_runtime.executor import gradients_layout, has_gradients_layout
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator, TracedValue, Write
from torch import Tensor

from poet_planner.lowering.operators.draft import added


def in_parameter_layouts(traced: TracedGraph, parameters: Mapping[str, Tensor]) -> TracedGraph:
    """The step with a copy after each gradient whose strides, as the rehearsal saw them, are none that autograd keeps.

    ``parameters`` are by resident id.
    """
    makers = {id: operator for operator in traced.operators for id in operator.values}
    copies: dict[str, list[TracedOperator]] = {}
    values, gradients = dict(traced.values), dict(traced.gradients)
    for name, ref in traced.gradients.items():
        parameter = parameters[name]
        if has_gradients_layout(parameter, ref.stride):
            continue
        id, shape, layout = added(f"{name}.grad", "layout"), tuple(parameter.shape), gradients_layout(parameter)
        maker = makers[ref.source]
        blank = Blank(shape, layout, parameter.dtype)
        copies.setdefault(maker.id, []).append(
            TracedOperator(
                *(id, torch.ops.aten.copy_.default, (blank, ref), {}, (None,), True, maker.module),
                writes=(Write(0, id),),
            )
        )
        resident = values[ref.source].resident
        values[id] = TracedValue(id, parameter.nbytes, shape, parameter.dtype, layout, resident)
        gradients[name] = Ref(id, (), shape, layout, parameter.dtype)
    kept = {ref.source for ref in (*gradients.values(), traced.loss)}
    for ref in traced.gradients.values():
        if ref.source not in kept:
            values[ref.source] = replace(values[ref.source], resident=None)
    operators = [one for operator in traced.operators for one in (operator, *copies.get(operator.id, ()))]
    return replace(traced, operators=tuple(operators), values=values, gradients=gradients)
