# SPDX-License-Identifier: Apache-2.0
"""A lowered step with its large values in slices, each of some channels or features.

A value of more than a given size becomes several, and so do all values that are tied to it: an operator that works
channel by channel becomes one of itself for each slice, with the parameters of its channels. Convolutions and linear
layers end a chain of such operators. One that makes slices is several with fewer outputs. One that reads slices is
several with fewer inputs, each of which adds to the sum that those before have made: all bits are those of the whole.
Where Winograd's algorithm sums over eight channels at a time, slices have whole eights.
Their weights are cut along with them: each part is a tensor of its own, which says of what it is a part. What any other
operator reads or makes stays whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product, zip_longest
from math import gcd, prod
from typing import Generic, TypeVar

from poet_profiles.firmware.operators import (
    ACCUMULATE,
    OPERATORS,
    SUM_SO_FAR,
    params_key,
    parse_params,
    rows_together,
)
from poet_profiles.firmware.steps import POINTWISE, SPREAD, SUM, steps_in
from poet_profiles.graph import Graph, Node, Operation, Part, Resident, Value
from poet_profiles.graph.kept import TRAINED_KINDS

from poet_planner.graph.streaming import MOST_SLICES
from poet_planner.lowering.memory.in_place import without_taking_over
from poet_planner.lowering.memory.optimizer_step import descents_of
from poet_planner.lowering.operators.draft import added, behind_one_another, region_bytes

Key = TypeVar("Key", bound=Hashable)
Params = dict[str, int]

_DENSE = ("conv2d", "conv2d_backward_input", "conv2d_backward_weight")


@dataclass(frozen=True)
class _Form:
    """How an operator sees a tensor: ``rows`` that are never cut, and axes, by name, that may be.

    Two axes are those of a matrix of weights, and of its gradient; ``rows`` is None where the operator does not care.
    """

    axes: tuple[str, ...]
    rows: int | None = 1


@dataclass(frozen=True)
class _Cut:
    """How an operator is cut."""

    # operands, results: one for each.
    operands: tuple[_Form, ...]
    results: tuple[_Form, ...]
    params: Mapping[str, tuple[str, ...]]  # the parameters that shrink with the slices of an axis
    extents: Mapping[str, int] = field(default_factory=dict)  # what the number of slices of an axis has to divide
    summed: str | None = None  # the axis over which the operator sums: no result has it
    # The axis of whose slices only one has the bias, the last operand or result: that from which the operator's sums
    # begin, or after which it adds the bias.
    bias: str | None = None
    bias_part: int = 0  # which of them: 0, or -1 for the last


def with_slices(graph: Graph, above_bytes: int) -> Graph:
    """The same step with every value of more than ``above_bytes`` in slices, where its operators allow it.

    Nothing is computed in place any more: `with_taking_over` comes after. ``graph`` is as lowered for the firmware,
    with gradients as values.
    """
    graph = without_taking_over(graph)
    slicing = _Slicing(graph, above_bytes)
    nodes = tuple(part for node in graph.nodes for part in slicing.parts_of(node))
    residents = behind_one_another(part for resident in graph.residents for part in slicing.parts_of_resident(resident))
    return replace(graph, nodes=nodes, residents=residents, resident_bytes=region_bytes(residents))


class _Slicing:
    """What stands for a node, given how many slices each axis of each tensor has."""

    def __init__(self, graph: Graph, above_bytes: int) -> None:
        weights = _weights(graph)
        self._cuts = {node.id: _cut_of(node.operation, weights) for node in graph.nodes}
        self._counts = _Ties(graph, self._cuts).counts(above_bytes)
        self._signals: dict[str, list[str]] = {}

    def parts_of(self, node: Node) -> Iterator[Node]:
        """The nodes that stand for one."""
        cut = self._cuts[node.id]
        if cut is None or node.operation is None:
            yield replace(node, inputs=tuple(self._all_parts(node.inputs)))
            return
        counts = {
            axis: count
            for id, form in _tensors(node.operation, cut)
            for axis, count in zip(form.axes, self._counts[id], strict=False)
        }
        free = [axis for axis in counts if axis != cut.summed]
        for at in product(*(range(counts[axis]) for axis in free)):
            yield from self._part(node, cut, counts, dict(zip(free, at, strict=True)))

    def parts_of_resident(self, resident: Resident) -> Iterator[Resident]:
        """The residents that stand for one, wherever they will lie."""
        counts = self._counts.get(resident.id, ())
        if prod(counts) == 1:
            yield resident
            return
        shape = tuple(extent // count for extent, count in zip_longest(resident.shape, counts, fillvalue=1))
        for at in product(*map(range, counts)):
            start = tuple(place * extent for place, extent in zip_longest(at, shape, fillvalue=0))
            part = Part(resident.id, start)
            size = resident.bytes // prod(counts)
            yield replace(resident, id=_part_id(resident.id, at), bytes=size, shape=shape, part=part)

    def _part(self, node: Node, cut: _Cut, counts: Mapping[str, int], at: dict[str, int]) -> Iterator[Node]:
        """What makes one slice of each result: one operator, or one for each slice that it sums over."""
        operation = node.operation
        assert operation is not None
        terms = [
            self._operator(node, cut, counts, {**at, **({cut.summed: term} if cut.summed else {})})
            for term in range(counts.get(cut.summed or "", 1))
        ]
        *before, last = _accumulated(terms) if len(terms) > 1 else terms
        yield from before
        like = operation.results[0]
        signals = []
        for value in node.values:
            if value.id not in operation.results:
                signals.append(Value(self._slice(value.id, cut.results[0], at, like), 0))
                self._signals.setdefault(value.id, []).append(signals[-1].id)
        yield replace(last, id=self._slice(node.id, cut.results[0], at, like), values=(*last.values, *signals))

    def _operator(self, node: Node, cut: _Cut, counts: Mapping[str, int], at: Mapping[str, int]) -> Node:
        """The operator for one slice of each axis, without signals."""
        operation = node.operation
        assert operation is not None
        params = parse_params(operation.params)
        for axis, names in cut.params.items():
            for name in names:
                params[name] //= counts.get(axis, 1)
        operands = [(id, self._slice(id, form, at)) for id, form in zip(operation.operands, cut.operands, strict=True)]
        results = [(id, self._slice(id, form, at)) for id, form in zip(operation.results, cut.results, strict=True)]
        if cut.bias and params["bias"] and at[cut.bias] != cut.bias_part % counts[cut.bias]:
            params["bias"] = 0
            (operands if len(operands) == 3 else results).pop()
        sizes = OPERATORS[operation.op].sizes(params)
        made = {value.id: value.bytes for value in node.values}
        values = (
            Value(part, size if made[id] else 0)
            for (id, part), size in zip(results, sizes.outputs, strict=True)
            if id in made
        )
        read = [part for id, part in operands if id in node.inputs]
        waited_for = self._all_parts(id for id in node.inputs if id not in operation.operands)
        return replace(
            node,
            values=tuple(values),
            inputs=tuple(dict.fromkeys((*waited_for, *read))),
            workspace_bytes=sizes.workspace,
            operation=Operation(
                operation.op,
                params_key(operation.op, params),
                tuple(part for _, part in operands),
                tuple(part for _, part in results),
            ),
        )

    def _slice(self, id: str, form: _Form, at: Mapping[str, int], like: str = "") -> str:
        """Id of a tensor's slice; of what stands beside the tensor ``like``, as that one is cut."""
        counts = self._counts[like or id]
        places = tuple(at[axis] for axis in form.axes[: len(counts)])
        return id if prod(counts) == 1 else _part_id(id, places)

    def _all_parts(self, ids: Iterable[str]) -> Iterator[str]:
        for id in ids:
            counts = self._counts.get(id, ())
            if id in self._signals:
                yield from self._signals[id]
            elif prod(counts) == 1:
                yield id
            else:
                yield from (_part_id(id, at) for at in product(*map(range, counts)))


def _accumulated(terms: list[Node]) -> Iterator[Node]:
    """The first makes a sum, each other one adds to it; the last gives the result that each would give alone."""
    (result,) = terms[0].values
    total = ""
    for number, term in enumerate(terms):
        operation = term.operation
        assert operation is not None
        id = result.id if term is terms[-1] else added(result.id, f"sum{number}")
        if total:
            operands = (*operation.operands[:SUM_SO_FAR], total, *operation.operands[SUM_SO_FAR:])
            operation = replace(operation, op=f"{operation.op}{ACCUMULATE}", operands=operands)
        yield replace(
            term,
            id=id,
            values=(replace(result, id=id),),
            inputs=(*term.inputs, total) if total else term.inputs,
            operation=replace(operation, results=(id,)),
        )
        total = id


class _Ties:
    """Which axes of which tensors have to be cut alike, and how often they may be."""

    def __init__(self, graph: Graph, cuts: Mapping[str, _Cut | None]) -> None:
        self._graph = graph
        self._axes: _Classes[tuple[str, int]] = _Classes()
        self._forms: _Classes[str] = _Classes()
        self._seen: dict[str, set[tuple[int, int]]] = {}
        self._divides: list[tuple[tuple[str, int], int]] = []
        self._ids: dict[str, None] = {}
        self._trained = {resident.id for resident in graph.residents if resident.kind in TRAINED_KINDS}
        for node in graph.nodes:
            if node.operation is not None:
                self._take(node, node.operation, cuts[node.id])

    def _take(self, node: Node, operation: Operation, cut: _Cut | None) -> None:
        if cut is None:
            for id in (*operation.operands, *operation.results, *(value.id for value in node.values)):
                self._stays_whole(id)
            return
        named: dict[str, tuple[str, int]] = {}
        free = [id for id, form in _tensors(operation, cut) if form.rows is None]
        for id in free[1:]:
            self._forms.join(free[0], id)
        for id, form in _tensors(operation, cut):
            self._ids[id] = None
            if form.rows is not None:
                self._seen.setdefault(id, set()).add((form.rows, len(form.axes)))
            for place, axis in enumerate(form.axes):
                self._axes.join(named.setdefault(axis, (id, place)), (id, place))
        self._divides += [(named[axis], extent) for axis, extent in cut.extents.items()]

    def _stays_whole(self, id: str) -> None:
        self._ids[id] = None
        self._divides += [((id, place), 1) for place in range(2)]

    def counts(self, above_bytes: int) -> dict[str, tuple[int, ...]]:
        """By tensor, how many slices each of its axes has."""
        axes = self._axes_of_tensors()
        self._hold_to_shapes(axes)
        most: dict[tuple[str, int], int] = {}
        for key, extent in self._divides:
            root = self._axes.of(key)
            most[root] = gcd(most.get(root, 0), extent)
        largest: dict[tuple[str, int], int] = {}
        for value in (value for node in self._graph.nodes for value in node.values):
            if axes.get(value.id) == 1:
                root = self._axes.of((value.id, 0))
                largest[root] = max(value.bytes, largest.get(root, 0))
        slices = {root: _slices(size, most.get(root, 1), above_bytes) for root, size in largest.items()}
        return {
            id: tuple(slices.get(self._axes.of((id, place)), 1) for place in range(number))
            for id, number in axes.items()
        }

    def _axes_of_tensors(self) -> dict[str, int]:
        """How many axes of each tensor may be cut: 1, or 2 of a matrix of weights."""
        seen: dict[str, set[tuple[int, int]]] = {}
        for id in self._ids:
            seen.setdefault(self._forms.of(id), set()).update(self._seen.get(id, ()))
        axes = {}
        for id in self._ids:
            forms = seen[self._forms.of(id)]
            axes[id] = max((number for _, number in forms), default=1)
            if len(forms) != 1 or (id in self._trained and {rows for rows, _ in forms} != {1}):
                self._stays_whole(id)
        return axes

    def _hold_to_shapes(self, axes: Mapping[str, int]) -> None:
        """Parts of a tensor that outlives the step are parts of its shape; nothing else outside of a step is cut."""
        for resident in self._graph.residents:
            if resident.id not in axes:
                continue
            if resident.id not in self._trained or len(resident.shape) < axes[resident.id]:
                self._stays_whole(resident.id)
                continue
            for place in range(axes[resident.id]):
                self._divides.append(((resident.id, place), resident.shape[place]))
        for constant in self._graph.constants:
            self._stays_whole(constant.id)


class _Classes(Generic[Key]):
    """Keys that belong together."""

    def __init__(self) -> None:
        self._parents: dict[Key, Key] = {}

    def of(self, key: Key) -> Key:
        """The one key that stands for all that belong to it."""
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def join(self, one: Key, other: Key) -> None:
        self._parents[self.of(one)] = self.of(other)


def _slices(size: int, most: int, above_bytes: int) -> int:
    """The fewest slices of so many bytes that are no larger than wanted; as many as there may be, if all are."""
    allowed = [count for count in range(1, min(most, MOST_SLICES) + 1) if most % count == 0]
    return next((count for count in allowed if size <= count * above_bytes), allowed[-1])


def _part_id(id: str, at: tuple[int, ...]) -> str:
    return added(id, ".".join(map(str, at)))


def _tensors(operation: Operation, cut: _Cut) -> list[tuple[str, _Form]]:
    ids, forms = (*operation.operands, *operation.results), (*cut.operands, *cut.results)
    return list(zip(ids, forms, strict=True))


def _weights(graph: Graph) -> set[str]:
    """Parameters and their gradients."""
    return {resident.id for resident in graph.residents if resident.kind == "parameter"} | {
        one.gradient for one in descents_of(graph).values()
    }


def _cut_of(operation: Operation | None, weights: set[str]) -> _Cut | None:
    """How an operator is cut; None where it is not."""
    if operation is None:
        return None
    op = operation.op
    plain = op == POINTWISE and not any(step.name in (SPREAD, SUM) for step in steps_in(parse_params(operation.params)))
    if op == "sgd" or plain or (op == "sgd_general" and len(operation.operands) == 2):
        form = _Form(("0", "1"), rows=None)
        operands, results = ((form,) * len(ids) for ids in (operation.operands, operation.results))
        return _Cut(operands, results, {"0": ("size",), "1": ("size",)})
    if op not in OPERATORS:
        return None
    p = parse_params(operation.params)
    if op in _DENSE:
        return _convolution(op, p) if p["g"] == 1 else _by_groups(op, p) if p["g"] == p["c"] else None
    if op == "linear":
        return _linear(p)
    if op == "matmul":
        return _product(operation, p, weights)
    return _by_channels(op, p)


def _convolution(op: str, p: Params) -> _Cut:
    x, y = _Form(("c",), p["n"]), _Form(("k",), p["n"])
    w, b = _Form(("k", "c")), _Form(("k",))
    params, together = {"c": ("c",), "k": ("k",)}, rows_together("conv2d_backward_input", p)
    extents = {axis: p[axis] // together if p[axis] % together == 0 else 1 for axis in params}
    with_bias = (b,) if p["bias"] else ()
    if op == "conv2d":
        return _Cut((x, w, *with_bias), (y,), params, extents, summed="c", bias="c")
    if op == "conv2d_backward_input":
        return _Cut((y, w), (x,), params, extents, summed="k")
    return _Cut((y, x), (w, *with_bias), params, extents, bias="c")


def _by_groups(op: str, p: Params) -> _Cut:
    """A convolution of each channel for itself."""
    whole, vector = _Form(("g",), p["n"]), _Form(("g",))
    params, extents = {"g": ("c", "k", "g")}, {"g": p["g"]}
    with_bias = (vector,) if p["bias"] else ()
    if op == "conv2d":
        return _Cut((whole, vector, *with_bias), (whole,), params, extents)
    if op == "conv2d_backward_input":
        return _Cut((whole, vector), (whole,), params, extents)
    return _Cut((whole, whole), (vector, *with_bias), params, extents)


def _linear(p: Params) -> _Cut:
    operands = (_Form(("k",), p["m"]), _Form(("n", "k")), *((_Form(("n",)),) if p["bias"] else ()))
    y = _Form(("n",), p["m"])
    params, extents = {"k": ("k",), "n": ("n",)}, {"k": p["k"], "n": p["n"]}
    return _Cut(operands, (y,), params, extents, summed="k", bias="k", bias_part=-1)


def _product(operation: Operation, p: Params, weights: set[str]) -> _Cut | None:
    """A product with a matrix of weights, or one that makes the gradient of one."""
    (a, c), (y,) = operation.operands, operation.results
    if p["b"] != 1 or a in weights:
        return None
    if c in weights and y not in weights and (not p["ta"] or p["m"] == 1):
        matrix = _Form(("n", "k") if p["tb"] else ("k", "n"))
        operands, result = (_Form(("k",), p["m"]), matrix), _Form(("n",), p["m"])
        return _Cut(operands, (result,), {"k": ("k",), "n": ("n",)}, {"k": p["k"], "n": p["n"]}, summed="k")
    if y in weights and c not in weights and (p["k"] == 1 or (p["ta"], p["tb"]) == (1, 0)):
        operands, result = (_Form(("m",), p["k"]), _Form(("n",), p["k"])), _Form(("m", "n"))
        return _Cut(operands, (result,), {"m": ("m",), "n": ("n",)}, {"m": p["m"], "n": p["n"]})
    return None


def _by_channels(op: str, p: Params) -> _Cut | None:
    """An operator that works channel by channel, with numbers for each."""
    axis = "n" if op in ("add_rows", "sum_rows") else "c"
    vector = _Form((axis,))
    many = _Form((axis,), p["m"] if axis == "n" else p.get("n", 1))
    forms = {
        "add_rows": ((many, vector), (many,)),
        "sum_rows": ((many,), (vector,)),
        "batch_norm": ((many, vector, vector), (many, vector, vector)),
        "batch_norm_backward": ((many, many, vector, vector, vector), (many, vector, vector)),
        "batch_norm_update": ((vector,) * 4, (vector,) * 2),
        "max_pool2d": ((many,), (many, many)),
        "max_pool2d_backward": ((many, many), (many,)),
        "avg_pool2d": ((many,), (many,)),
        "avg_pool2d_backward": ((many,), (many,)),
    }
    if op not in forms:
        return None
    operands, results = forms[op]
    return _Cut(operands, results, {axis: (axis,)}, {axis: p[axis]})
