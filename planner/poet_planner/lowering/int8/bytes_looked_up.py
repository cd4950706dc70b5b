# SPDX-License-Identifier: Apache-2.0
"""Inputs of bytes are looked up in a table of what a model makes of each; int16 is widened.

So an input takes a byte a number in RAM, on the line and on the card, and ``x.float() / 255`` has PyTorch's bits: the
table is computed by PyTorch. One of int16 takes two, and steps make f32 of it. An input that anything reads as whole
numbers stays of words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import poet_runtime.integers
import torch
from poet_runtime.traced_graph import Kind, Ref, TracedGraph, TracedOperator, TracedResident, map_refs, row_major
from torch import Tensor

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import aten_name, is_row_major, lies_alike
from poet_planner.lowering.operators.steps import STEPS
from poet_planner.lowering.rewrites.constants import constant_data, viewed
from poet_planner.lowering.rewrites.rewriting import CLONE, Rewriting

_LOOK_UP, _WIDEN = torch.ops.poet.look_up.default, torch.ops.poet.widen.default
_TO_COPY = torch.ops.aten._to_copy.default
_BYTES = (torch.uint8, torch.int8)
assert poet_runtime.integers.__doc__  # the import registers the operator


@dataclass(frozen=True)
class Function:
    """What a value is of an input's bytes: a number for each byte, or two, as they lie."""

    of: Ref
    table: Tensor


def with_bytes_looked_up(traced: TracedGraph) -> TracedGraph:
    """The same step, with one operator for those that make f32 of an input of bytes."""
    inputs = {one.id: one for one in traced.residents if one.kind is Kind.INPUT and one.dtype in _BYTES}
    while inputs:
        functions = functions_of(traced, inputs)
        read = [ref for one in traced.operators if not functions.keys() & {*one.values} for ref in one.refs]
        ends = {ref.source for ref in (*read, traced.loss, *traced.gradients.values())}
        as_words = {id for id in inputs if id in ends}
        as_words |= {one.of.source for id, one in functions.items() if id in ends and one.table.dtype != torch.float32}
        if not as_words:
            return _looked_up(traced, inputs, {id: one for id, one in functions.items() if id in ends}, functions)
        inputs = {id: one for id, one in inputs.items() if id not in as_words}
    return traced


def with_int16_widened(traced: TracedGraph) -> TracedGraph:
    """The same step, in which readers of int16 make f32 of it, if none reads whole numbers."""
    inputs = {one.id: one for one in traced.residents if one.kind is Kind.INPUT and one.dtype == torch.int16}
    as_words = {ref.source for ref in (traced.loss, *traced.gradients.values())}
    as_words |= {ref.source for one in traced.operators if not _makes_floats(one, traced) for ref in one.refs}
    inputs = {id: one for id, one in inputs.items() if id not in as_words}
    rewriting = Rewriting(traced)
    for operator in traced.operators:
        rewriting.aliases = {}
        read = {ref.source for ref in operator.refs} & inputs.keys()
        if operator.target is _TO_COPY and read and is_whole(operator.refs[0], inputs):
            ref = operator.refs[0]
            rewriting.put(replace(operator, target=_WIDEN, args=(ref,), kwargs={}), operator.values[0], ref.shape)
            continue
        for id in read:
            shape = inputs[id].shape
            whole = Ref(id, (), shape, row_major(shape), torch.int16)
            rewriting.aliases[id] = rewriting.emit(operator, f"{id}_widened", shape, _WIDEN, whole)
        rewriting.operators.append(rewriting.seen(operator))
    return rewriting.graph() if inputs else traced


def is_whole(ref: Ref, inputs: Mapping[str, TracedResident]) -> bool:
    return prod(ref.shape) == prod(inputs[ref.source].shape) and is_row_major(ref.shape, ref.stride)


def _makes_floats(operator: TracedOperator, traced: TracedGraph) -> bool:
    values = [traced.values[id] for id in operator.values if id in traced.values]
    plain = aten_name(operator) in STEPS and not operator.updates and len(values) == 1
    return plain and values[0].dtype in (torch.float32, torch.bool)


def functions_of(traced: TracedGraph, inputs: Mapping[str, TracedResident]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    fixed = constant_data(traced)

    def read(ref: Ref) -> Function | Tensor | None:
        if ref.source in inputs:
            return Function(ref, torch.arange(256**ref.dtype.itemsize).to(ref.dtype))
        if ref.source in fixed and prod(ref.shape) == 1:
            return viewed(ref, fixed).reshape(ref.shape[:1])
        return None if ref.views else found.get(ref.source)

    for operator in traced.operators:
        made = _made(operator, traced, [read(ref) for ref in operator.refs])
        if made is not None:
            found[operator.values[0]] = made
    return found


def _made(operator: TracedOperator, traced: TracedGraph, read: list[Function | Tensor | None]) -> Function | None:
    """None where it is no elementwise operator, of one input's bytes and numbers alone."""
    first = next((one for one in read if isinstance(one, Function)), None)
    if first is None or aten_name(operator) not in STEPS or len(operator.outputs) != 1 or operator.updates:
        return None
    value = traced.values[operator.values[0]]
    if value.resident or value.shape != first.of.shape:
        return None
    if any(one is None or (isinstance(one, Function) and one.of != first.of) for one in read):
        return None
    tables = iter(one.table if isinstance(one, Function) else one for one in read)
    args, kwargs = map_refs((operator.args, operator.kwargs), lambda _: next(tables))
    return replace(first, table=operator.target(*args, **kwargs))


def _looked_up(
    traced: TracedGraph,
    inputs: Mapping[str, TracedResident],
    wanted: Mapping[str, Function],
    functions: Mapping[str, Function],
) -> TracedGraph:
    rewriting = Rewriting(traced)
    tables: dict[str, Tensor] = {}
    for operator in traced.operators:
        id = operator.values[0] if operator.values else ""
        if id in wanted:
            one, value = wanted[id], traced.values[id]
            name = added(id, "table")
            tables[name] = one.table
            x = inputs[one.of.source]
            read = Ref(x.id, (), x.shape, row_major(x.shape), x.dtype), Ref(name, (), (256,), (1,), torch.float32)
            if not one.of.views and value.stride == row_major(x.shape):  # named as what has a range on int8
                rewriting.put(replace(operator, target=_LOOK_UP, args=read, kwargs={}), id, x.shape)
                continue
            made = rewriting.emit(operator, "bytes", x.shape, _LOOK_UP, *read)
            seen = replace(one.of, source=made.source, dtype=made.dtype)
            if lies_alike(seen, value):
                rewriting.aliases[id] = seen
            else:  # a part of it, say
                kwargs = {"memory_format": torch.contiguous_format}
                rewriting.put(replace(operator, target=CLONE, args=(seen,), kwargs=kwargs), id, value.shape)
        elif id not in functions:
            rewriting.operators.append(rewriting.seen(operator))
    more = [TracedResident(name, Kind.CONSTANT, 1024, (256,), torch.float32) for name in tables]
    graph = rewriting.graph()
    return replace(graph, residents=(*graph.residents, *more), constants={**graph.constants, **tables})
