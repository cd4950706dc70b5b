# SPDX-License-Identifier: Apache-2.0
"""A traced graph in the making, in which one operator becomes several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, View, map_refs, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.tracing.schema import bound_arguments

Rule = Callable[[TracedOperator, dict[str, Any]], bool]
"""Puts others in an operator's place, of which it is given the arguments by name, or leaves it there."""
CLONE = torch.ops.aten.clone.default


class Rewriting:
    """Operators and values so far.

    ``views`` are how values of another shape are read, ``aliases`` what is read in the place of a value.
    """

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self.values = dict(traced.values)
        self.operators: list[TracedOperator] = []
        self.views: dict[str, View] = {}
        self.aliases: dict[str, Ref] = {}

    def by(self, rules: Mapping[Any, Rule]) -> TracedGraph:
        """The graph, in which what rules say of an operator's target stands in its place."""
        for operator in map(self.seen, self._traced.operators):
            rule = rules.get(operator.target)
            if rule is None or not rule(operator, bound_arguments(operator.target, operator.args, operator.kwargs)):
                self.operators.append(operator)
        return self.graph()

    def emit(self, operator: TracedOperator, name: str, shape: Sequence[int], target: Any, *args: Any) -> Ref:
        """A part of an operator, and its row-major result in f32."""
        id = added(operator.id, name)
        kwargs = {"memory_format": torch.contiguous_format} if target is CLONE else {}
        return self.put(replace(operator, id=id, target=target, args=args, kwargs=kwargs), id, shape)

    def put(self, operator: TracedOperator, id: str, shape: Sequence[int]) -> Ref:
        """The operator, with one result in f32: a value of the graph, or a new one."""
        self.operators.append(replace(operator, outputs=(id,)))
        resident = self.values[id].resident if id in self.values else None
        self.values[id] = TracedValue(id, 4 * prod(shape), tuple(shape), torch.float32, row_major(shape), resident)
        return Ref(id, (), tuple(shape), row_major(shape), torch.float32)

    def seen(self, operator: TracedOperator) -> TracedOperator:
        """The operator, reading what is there now."""
        return replace(operator, args=map_refs(operator.args, self._seen), kwargs=map_refs(operator.kwargs, self._seen))

    def graph(self) -> TracedGraph:
        return replace(
            self._traced,
            operators=tuple(self.operators),
            values=self.values,
            loss=self._seen(self._traced.loss),
            gradients={parameter: self._seen(ref) for parameter, ref in self._traced.gradients.items()},
        )

    def _seen(self, ref: Ref) -> Ref:
        if alias := self.aliases.get(ref.source):
            ref = replace(ref, source=alias.source, views=(*alias.views, *ref.views), dtype=alias.dtype)
        view = self.views.get(ref.source)
        return ref if view is None else replace(ref, views=(view, *ref.views))
