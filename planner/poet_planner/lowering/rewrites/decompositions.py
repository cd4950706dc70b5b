# SPDX-License-Identifier: Apache-2.0
"""Operators that the firmware lacks, by what they are made of.

That is said by PyTorch's own decompositions, and by `made_of`. An operator is traced once more, on tensors without
data, and what comes out is taken apart likewise, until all of it has a way onto the firmware. Where some part has none
the operator stays whole, so that the refusal names what the user wrote. What of it hangs on constants alone is computed
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import (
    Blank,
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    map_refs,
    poets_own,
    row_major,
)
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.refusals import odd_type
from poet_planner.lowering.operators.rules import firmware_operator, places_read
from poet_planner.lowering.operators.steps import elementwise
from poet_planner.lowering.operators.strided_copies import layout_of, places, strided_operator
from poet_planner.lowering.rewrites import concat, constants
from poet_planner.lowering.rewrites.attention import weights_of_attention
from poet_planner.lowering.rewrites.made_of import MADE_OF, WITH_WRITES, written_through
from poet_planner.lowering.rewrites.rewriting import CLONE
from poet_planner.lowering.rewrites.row_major import with_rows_in_order
from poet_planner.tracing import schema
from poet_planner.tracing.fold import Part, fold_part
from poet_planner.tracing.prune import living

_TO_COPY = torch.ops.aten._to_copy.default
_COPY = torch.ops.aten.copy_.default
_MOST_LEVELS = 8
_PURE = {torch.ops.aten.pow_.Scalar: torch.ops.aten.pow.Tensor_Scalar}  # under another name
# Of whole numbers they make others than of floats.
_OF_BITS = (
    torch.ops.aten.floor_divide,
    torch.ops.aten.bitwise_and,
    torch.ops.aten.bitwise_or,
    torch.ops.aten.bitwise_not,
)


def with_decompositions(traced: TracedGraph) -> TracedGraph:
    """The same graph; what has no way onto the firmware as its parts, if these all have one."""
    taken = _Taken(traced)
    operators = [part for operator in traced.operators for part in taken.operators(operator)]
    operators, read = living(traced, operators)
    made = {id for operator in operators for id in operator.values}
    parted = replace(
        traced,
        operators=tuple(operators),
        values={id: value for id, value in taken.values.items() if id in made or id in traced.values},
        residents=(*traced.residents, *(one for id, one in taken.residents.items() if id in read)),
        constants=traced.constants | {id: taken.data[id] for id in taken.residents if id in read},
    )
    return with_rows_in_order(parted) if len(operators) > len(traced.operators) or taken.residents else parted


class _NoWayError(Exception):
    """Some part of an operator has no way onto the firmware."""


class _Taken:
    """``residents`` are constants that parts have brought along, by ids that say what they hold.

    ``floats`` are values of whole numbers as floats, by id: the whole numbers go, unless something reads them as such.
    """

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self.values = dict(traced.values)
        self.residents: dict[str, TracedResident] = {}
        self.floats: dict[str, Ref] = {}
        self._shapes = {one.id: one.shape for one in traced.residents}
        self._known = {one.id for one in traced.residents if one.kind is Kind.CONSTANT}
        self._known |= {one.id for one in constants.computed_constants(traced)}
        self._places_read = places_read(traced)
        self._parts: dict[str, Part | None] = {}
        self._written_parts: dict[str, tuple[Ref, Ref]] = {}

    @cached_property
    def data(self) -> dict[str, Tensor]:
        """Of the constants; nothing is computed before an operator asks."""
        return constants.constant_data(self._traced)

    def operators(self, operator: TracedOperator, level: int = 0, whole: bool = False) -> list[TracedOperator]:
        """What stands for an operator, of which the values are known.

        ``whole`` says that floats which it makes whole numbers are whole.
        """
        if _writes_into_view(operator):
            return self._written(operator, level)
        operator = self._of_floats(self._reading_parts(operator))
        if operator.target in (CLONE, _TO_COPY) and operator.refs and self._is_known_as_float(operator, whole):
            self.floats[operator.values[0]] = self._as_float(operator.refs[0])
            return [operator]
        if operator.target is _TO_COPY and _has_whole_numbers(operator, self.values) and _is_mask(operator):
            return [*self._float(replace(operator, kwargs={"dtype": torch.float32})), operator]
        if _has_whole_numbers(operator, self.values) and self._of_whole_numbers(operator):
            return [*self._float(operator), operator]
        if self._has_a_way(operator):
            return [operator]
        try:
            return self._piece(operator, level)
        except _NoWayError:
            if level:
                raise
            return [operator]

    def _written(self, operator: TracedOperator, level: int) -> list[TracedOperator]:
        """What is written, and then the whole; who reads no more than what is written, or the rest, needs no whole."""
        view: Ref = operator.args[0]
        id, stride = added(operator.id, "part"), row_major(view.shape)
        self.values[id] = TracedValue(id, view.dtype.itemsize * prod(view.shape), view.shape, view.dtype, stride)
        part = Ref(id, (), view.shape, stride, view.dtype)
        pure = _out_of_place(operator.target) or operator.target
        try:
            first = self.operators(replace(operator, id=id, target=pure, outputs=(id,), writes=()), level + 1)
            self._written_parts[operator.writes[0].value] = (view, part)
            whole = self._piece(replace(operator, target=_COPY, args=(view, part), kwargs={}), level)
        except _NoWayError:
            if level:
                raise
            return [operator]
        return [*first, *whole]

    def _reading_parts(self, operator: TracedOperator) -> TracedOperator:
        args, kwargs = map_refs((operator.args, operator.kwargs), self._part_read)
        return replace(operator, args=args, kwargs=kwargs)

    def _part_read(self, ref: Ref) -> Ref:
        """What is seen of a tensor that was written in part: the part, or what was there before."""
        if ref.source not in self._written_parts:
            return ref
        view, part = self._written_parts[ref.source]
        if ref.views[: len(view.views)] == view.views:
            new = replace(ref, source=part.source, views=ref.views[len(view.views) :])
            layout = layout_of(new, part.shape)
            return ref if layout is None else replace(new, stride=layout.stride())
        shape = self.values[ref.source].shape
        if places(ref, shape).isdisjoint(places(view, shape)):
            return self._part_read(replace(ref, source=view.source))
        return ref

    def _of_floats(self, operator: TracedOperator) -> TracedOperator:
        """The operator on floats instead of whole numbers that are as good as floats, where it yields none."""
        if operator.target is _TO_COPY and operator.refs[0].source in self.floats:
            if operator.kwargs.get("dtype") == torch.float32:
                return replace(operator, target=CLONE, args=map_refs(operator.args, self._as_float), kwargs={})
        elif _is_arithmetic(operator) and not _has_whole_numbers(operator, self.values):
            return replace(operator, args=map_refs(operator.args, self._as_float))
        return operator

    def _of_whole_numbers(self, operator: TracedOperator) -> bool:
        """Whether its operands are as good as floats."""
        whole = [ref for ref in operator.refs if ref.dtype not in (torch.float32, torch.bool)]
        return _is_arithmetic(operator) and all(ref.source in self.floats or ref.source in self._known for ref in whole)

    def _float(self, operator: TracedOperator) -> list[TracedOperator]:
        """What yields as floats what an operator yields as whole numbers."""
        id, (value,) = added(operator.id, "float"), operator.values
        shape = self.values[value].shape
        self.values[id] = TracedValue(id, 4 * prod(shape), shape, torch.float32, row_major(shape))
        self.floats[value] = Ref(id, (), shape, row_major(shape), torch.float32)
        return self.operators(replace(operator, id=id, args=map_refs(operator.args, self._as_float), outputs=(id,)), 1)

    def _as_float(self, ref: Ref) -> Ref:
        """A tensor of whole numbers, or of doubles, as floats, if it is known as such."""
        if ref.source in self.floats:
            before = self.floats[ref.source]
            return replace(ref, source=before.source, views=(*before.views, *ref.views), dtype=torch.float32)
        if ref.source in self._known and ref.dtype in (torch.int64, torch.int32, torch.float64):
            return replace(ref, source=self._constant(self.data[ref.source].float()), dtype=torch.float32)
        return ref

    def _is_known_as_float(self, operator: TracedOperator, whole: bool) -> bool:
        """Whether it yields whole numbers that are there as floats."""
        (x,) = operator.refs
        there = x.source in self.floats if x.dtype == torch.int64 else whole and x.dtype == torch.float32
        return there and _has_whole_numbers(operator, self.values)

    def _has_a_way(self, operator: TracedOperator) -> bool:
        if any(ref.source in self.floats for ref in operator.refs):
            return False  # it reads whole numbers that the firmware has not
        if not self._places_read.isdisjoint(operator.values):
            return False
        source = operator.refs[0].source if operator.refs else ""
        shape = self.values[source].shape if source in self.values else self._shapes.get(source, ())
        return bool(
            operator.random
            or operator.updates
            or constants.is_constant(operator, self._known, self.values)
            or elementwise(operator, self.values)
            or operator.target is CLONE
            or concat.is_join(operator)
            or self._is_lowered(operator, shape)
            or weights_of_attention(operator, self._traced)
        )

    def _is_lowered(self, operator: TracedOperator, shape: Sequence[int]) -> bool:
        ways = (firmware_operator(operator), strided_operator(operator, shape))
        return any(way is not None and odd_type(operator, way, self.values) is None for way in ways)

    def _piece(self, operator: TracedOperator, level: int) -> list[TracedOperator]:
        given = self._with_whole(operator)
        functions = [*_functions(operator, self._is_of_floats(operator))]
        part = self._part(given, functions) if level < _MOST_LEVELS else None
        if part is None or any(one.random or one.updates for one in part.operators):
            raise _NoWayError
        operands = list(_operands(given))
        names = {id: self._constant(data) for id, data in part.constants.items()}

        def seen(ref: Ref) -> Ref:
            if not ref.source.isdigit():
                return replace(ref, source=names[ref.source])
            given = operands[int(ref.source)]
            if isinstance(given, Blank):
                raise _NoWayError
            return replace(ref, source=given.source, views=(*given.views, *ref.views))

        made: list[TracedOperator] = []
        for one in _needed(part):
            names |= {id: f"{operator.id}.{id}" for id in one.values}
            self.values |= {names[id]: replace(part.values[id], id=names[id]) for id in one.values}
            plain = replace(
                _named(one, names),
                id=f"{operator.id}.{one.id}",
                args=map_refs(one.args, seen),
                kwargs=_on_any_device(map_refs(one.kwargs, seen)),
                backward=operator.backward,
                module=operator.module,
                written=operator.written,
                recomputable=operator.recomputable,
            )
            if constants.is_constant(plain, self._known, self.values):
                names[one.values[0]] = self._constant(constants.computed(plain, self.data))
            else:
                made += self.operators(plain, level + 1, operator.target in MADE_OF)
        results = [None if ref is None else seen(ref) for ref in part.results]
        return self._with_results(operator, made, results)

    def _with_results(
        self, operator: TracedOperator, made: list[TracedOperator], results: list[Ref | None]
    ) -> list[TracedOperator]:
        """The parts, with the operator's own values for what they yield; a copy where that lies otherwise."""
        names: dict[str, str] = {}
        copies: list[TracedOperator] = []
        ids = _results(operator)
        for id, ref in zip(ids, results, strict=True):
            if id is None:
                continue
            if ref is None or ref.dtype != self.values[id].dtype:
                raise _NoWayError
            value = self.values[id]
            own = any(ref.source in one.values for one in made) and ref.source not in names
            if own and not ref.views and _lies_like(self.values[ref.source], value):
                names[ref.source] = id
                continue
            kwargs = {"memory_format": torch.contiguous_format}
            self.values[id] = replace(
                value, bytes=value.dtype.itemsize * prod(value.shape), stride=row_major(value.shape)
            )
            if ref.source in self.floats:
                self.floats[id] = self._as_float(ref)
            copies.append(_plain(operator, added(operator.id, f"copy{len(copies)}"), (ref,), kwargs, id))
        for old in names.keys() & self.floats.keys():
            self.floats[names[old]] = self.floats.pop(old)
        for old, ref in self.floats.items():
            self.floats[old] = replace(ref, source=names.get(ref.source, ref.source))

        def seen(ref: Ref) -> Ref:
            return replace(ref, source=names.get(ref.source, ref.source))

        parts = [
            replace(_named(one, names), args=map_refs(one.args, seen), kwargs=map_refs(one.kwargs, seen))
            for one in (*made, *copies)
        ]
        first = next(id for id in ids if id is not None)
        return [replace(one, id=operator.id) if first in one.values else one for one in parts]

    def _is_of_floats(self, operator: TracedOperator) -> bool:
        """Whether it computes with single precision, masks and constants alone."""
        single = (torch.float32, torch.bool)
        return all(ref.dtype in single or ref.source in self._known for ref in operator.refs)

    def _with_whole(self, operator: TracedOperator) -> TracedOperator:
        """What writes into a tensor, given all of it."""
        if not _is_in_place(operator) or not isinstance(operator.args[0], Ref):
            return operator
        value = self.values[operator.writes[0].value]
        whole = Ref(operator.args[0].source, (), value.shape, value.stride, value.dtype)
        return replace(operator, args=(whole, *operator.args[1:]))

    def _part(self, operator: TracedOperator, functions: Sequence[Callable[..., Any]]) -> Part | None:
        data = self._numbers(operator) if operator.target in MADE_OF else {}
        key = str((operator.target, tree_map(_layout, (operator.args, operator.kwargs)), [*data]))
        if operator.writes or key not in self._parts:
            parts = (_traced(function, operator, data) for function in functions)
            self._parts[key] = next((part for part in parts if part is not None), None)
        return self._parts[key]

    def _numbers(self, operator: TracedOperator) -> dict[str, Tensor]:
        """Whole numbers among its operands that are constants."""
        refs = [ref for ref in operator.refs if ref.source in self._known and not ref.dtype.is_floating_point]
        return {str(ref): constants.viewed(ref, self.data) for ref in refs}

    def _constant(self, data: Tensor) -> str:
        data = data.detach().contiguous()
        what = sha256(f"{data.dtype}{tuple(data.shape)}".encode())
        what.update(data.flatten().view(torch.uint8).numpy().tobytes())
        id = poets_own(f"constant.{what.hexdigest()[:16]}")
        self.residents[id] = TracedResident(id, Kind.CONSTANT, data.nbytes, tuple(data.shape), data.dtype)
        self._shapes[id] = tuple(data.shape)
        self._known.add(id)
        self.data[id] = data
        return id


def _results(operator: TracedOperator) -> tuple[str | None, ...]:
    """Ids of what its function returns: its results, and then what it writes."""
    outputs = operator.outputs if any(operator.outputs) else operator.outputs[len(operator.writes) :]
    return (*outputs, *(write.value for write in operator.writes))


def _is_mask(operator: TracedOperator) -> bool:
    return operator.refs[0].dtype == torch.bool


def _is_arithmetic(operator: TracedOperator) -> bool:
    return torch.Tag.pointwise in operator.target.tags and operator.target.overloadpacket not in _OF_BITS


def _out_of_place(target: OpOverload) -> OpOverload | None:
    return schema.out_of_place(target) or _PURE.get(target)


def _writes_into_view(operator: TracedOperator) -> bool:
    viewed = _is_in_place(operator) and isinstance(operator.args[0], Ref) and operator.args[0].views
    return bool(viewed) and _out_of_place(operator.target) is not None


def _is_in_place(operator: TracedOperator) -> bool:
    return [write.argument for write in operator.writes] == [0] and not any(operator.outputs)


def _has_whole_numbers(operator: TracedOperator, values: dict[str, TracedValue]) -> bool:
    return bool(operator.values) and all(values[id].dtype == torch.int64 for id in operator.values)


def _functions(operator: TracedOperator, of_floats: bool) -> Iterator[Callable[..., Any]]:
    """What computes it of other operators, the best first; PyTorch's own only of single precision and masks."""
    target = operator.target
    if _is_in_place(operator):
        pure = _out_of_place(target)
        views = operator.args[0].views if isinstance(operator.args[0], Ref) else ()
        if pure:
            yield written_through(pure, views) if views else pure
    elif target in MADE_OF and (target in WITH_WRITES) == bool(operator.writes):
        yield MADE_OF[target]
    if operator.writes or not of_floats:
        return
    if target in decomposition_table:
        yield decomposition_table[target]
    if torch._C._dispatch_has_kernel_for_dispatch_key(str(target.name()), "CompositeImplicitAutograd"):  # type: ignore[no-untyped-call]
        yield target.decompose


def _traced(function: Callable[..., Any], operator: TracedOperator, data: dict[str, Tensor]) -> Part | None:
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        given = [torch.empty_strided(one.shape, one.stride, dtype=one.dtype) for one in _operands(operator)]

        def run(*flat: Tensor) -> list[Any]:
            tensors = iter(flat)

            def tensor(leaf: Any) -> Any:
                if not isinstance(leaf, Ref | Blank):
                    return leaf
                fake = next(tensors)
                return data.get(str(leaf), fake)

            args, kwargs = tree_map(tensor, (operator.args, operator.kwargs))
            results = function(*args, **kwargs)
            return list(results) if isinstance(results, tuple | list) else [results]

        try:
            part = fold_part(make_fx(run)(*given), [str(place) for place in range(len(given))])
            return None if any(isinstance(data, FakeTensor) for data in part.constants.values()) else part
        except Exception:  # whatever PyTorch raises: its decomposition does not hold for these arguments
            return None


def _needed(part: Part) -> list[TracedOperator]:
    """Its operators without those that no result needs."""
    needed = {ref.source for ref in part.results if ref is not None}
    kept = []
    for operator in reversed(part.operators):
        if not needed.isdisjoint(operator.values):
            needed.update(ref.source for ref in operator.refs)
            kept.append(replace(operator, outputs=tuple(id if id in needed else None for id in operator.outputs)))
    return kept[::-1]


def _operands(operator: TracedOperator) -> Iterator[Ref | Blank]:
    return (leaf for leaf in tree_leaves((operator.args, operator.kwargs)) if isinstance(leaf, Ref | Blank))


def _layout(leaf: Any) -> Any:
    return (leaf.shape, leaf.stride, leaf.dtype) if isinstance(leaf, Ref | Blank) else leaf


def _named(operator: TracedOperator, names: dict[str, str]) -> TracedOperator:
    outputs = tuple(None if id is None else names.get(id, id) for id in operator.outputs)
    writes = tuple(replace(write, value=names.get(write.value, write.value)) for write in operator.writes)
    return replace(operator, outputs=outputs, writes=writes)


def _plain(operator: TracedOperator, id: str, args: tuple[Any, ...], kwargs: Any, result: str) -> TracedOperator:
    return replace(operator, id=id, target=CLONE, args=args, kwargs=kwargs, outputs=(result,), writes=())


def _on_any_device(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("device", "pin_memory", "layout")}


def _lies_like(value: TracedValue, other: TracedValue) -> bool:
    whole = value.bytes == other.bytes and value.shape == other.shape
    return whole and value.stride == other.stride == row_major(value.shape)
