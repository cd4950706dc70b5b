# SPDX-License-Identifier: Apache-2.0
"""From a flat ATen graph to operators over versioned storage: views, aliases and in-place writes disappear.

Every storage has a current version: a resident, or the value of the operator that wrote it last. What the flat graph
calls a tensor is a *place*: a storage and a chain of views. A write makes a new version, and every place on that
storage sees it from then on, as in eager PyTorch.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from poet_profiles.errors import UserError
from poet_runtime.traced_graph import (
    Blank,
    Kept,
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    View,
    Write,
    Written,
    poets_own,
)
from torch import Tensor, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from poet_planner.tracing import schema
from poet_planner.tracing.capture import Captured
from poet_planner.tracing.refusals import depends_on_data, module_of

aten = torch.ops.aten


def fold(captured: Captured, name: str) -> TracedGraph:
    """Operators, values and residents of a captured step, under provisional ids, dead operators included."""
    return _Folder(captured, name).graph()


@dataclass(frozen=True)
class Part:
    """Operators of a part of a step, under provisional ids, and its results, None where there is no tensor.

    ``constants`` are data that it brings along.
    """

    operators: tuple[TracedOperator, ...]
    values: dict[str, TracedValue]
    constants: dict[str, Tensor]
    results: tuple[Ref | None, ...]


def fold_part(graph: fx.GraphModule, operands: Sequence[str]) -> Part:
    """A flat graph over operands of these ids, of which it writes none."""
    placeholders = tuple((id, Kind.PARAMETER) for id in operands)
    return _Folder(Captured(graph, placeholders, (), (), {}, ("", Kind.OUTPUT), True), "").part()


@dataclass
class _Storage:
    """``layout`` is the whole storage as a tensor; ``version`` is None while nothing has been written."""

    layout: Tensor
    version: str | None
    creation: fx.Node | None = None


@dataclass(frozen=True)
class _Place:
    storage: _Storage
    views: tuple[View, ...]
    layout: Tensor


class _Folder:
    def __init__(self, captured: Captured, name: str) -> None:
        self._captured = captured
        self._name = name
        self._places: dict[fx.Node, Any] = {}
        self._operators: list[TracedOperator] = []
        self._values: dict[str, TracedValue] = {}
        self._residents: list[TracedResident] = []
        self._buffers: dict[str, _Storage] = {}
        self._given: dict[str, _Storage] = {}
        self._constants: dict[str, Tensor] = {}
        self._last_random: str | None = None
        self._node: fx.Node

    def graph(self) -> TracedGraph:
        loss, gradients, rebound, kept = self._results(self._walked())
        self._update_residents(rebound)
        self._account_generator()
        return TracedGraph(
            name=self._name,
            operators=tuple(self._operators),
            values=self._values,
            residents=tuple(self._residents),
            gradients=gradients,
            loss=loss,
            constants=self._constants,
            loss_parameters=self._captured.loss_parameters,
            kept=kept,
        )

    def part(self) -> Part:
        nodes = cast(list[fx.Node | None], self._walked().args[0])
        results = tuple(None if node is None else self._ref(self._place(node)) for node in nodes)
        return Part(tuple(self._operators), self._values, self._constants, results)

    def _walked(self) -> fx.Node:
        """The node of the results, after all others."""
        placeholders = iter(self._captured.placeholders)
        for node in self._captured.graph.graph.nodes:
            self._node = node
            if node.op == "placeholder":
                name, kind = next(placeholders)
                id = name if kind in (Kind.PARAMETER, Kind.BUFFER) else poets_own(name)
                self._places[node] = self._resident(id, kind, node.meta["val"])
            elif node.op == "get_attr":
                self._places[node] = self._constant(node)
            elif node.op == "call_function":
                self._call(node)
        return self._node

    def _resident(self, name: str, kind: Kind, layout: Tensor) -> _Place:
        size = layout.untyped_storage().nbytes()
        stride = None if layout.is_contiguous() else tuple(layout.stride())
        self._residents.append(TracedResident(name, kind, size, tuple(layout.shape), layout.dtype, stride))
        storage = _Storage(layout, name)
        self._given[name] = storage
        if kind is Kind.BUFFER:
            self._buffers[name] = storage
        return _Place(storage, (), layout)

    def _constant(self, node: fx.Node) -> _Place:
        data = operator.attrgetter(str(node.target))(self._captured.graph)
        if data.requires_grad:
            raise UserError(
                f"{module_of(next(iter(node.users), node))} reads {_described(data)}, which needs a gradient and is no "
                "parameter of the model; register it (nn.Parameter, nn.ParameterList)"
            )
        name = poets_own(f"constant{len(self._constants)}")
        # The very tensor, so that who holds the step can read it anew; of a part of one the part alone.
        whole = data.untyped_storage().nbytes() == data.nbytes
        self._constants[name] = data if whole else data.detach().clone()
        return self._resident(name, Kind.CONSTANT, self._constants[name])

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            parent, index = cast(tuple[fx.Node, int], node.args)
            self._places[node] = self._places[parent][index]
        elif not isinstance(node.target, OpOverload):
            raise UserError(f"{module_of(node)}: {node.target} is not an ATen operator; the model cannot be traced")
        elif schema.only_checks(node.target):
            pass
        elif schema.is_view(node.target):
            self._view(node, node.target)
        elif (view := schema.view_in_place(node.target)) is not None:
            self._view(node, view)
            self._places[cast(fx.Node, node.args[0])] = self._places[node]
        elif node.target in schema.ALLOCATIONS:
            layout = node.meta["val"]
            self._places[node] = _Place(_Storage(layout, None, node), (), layout)
        else:
            self._operator(node, node.target)

    def _view(self, node: fx.Node, target: OpOverload) -> None:
        source = self._place(node.args[0])
        layouts = node.meta["val"]
        numbers = [argument for argument in node.all_input_nodes if argument is not node.args[0]]
        for argument in numbers:
            self._place(argument)

        def place(layout: Tensor, index: int | None) -> _Place:
            view = View(target, tuple(node.args[1:]), dict(node.kwargs), index)
            views = () if _same_layout(layout, source.storage.layout) else (*source.views, view)
            if _same_layout(layout, source.layout):
                views = source.views
            return _Place(source.storage, views, layout)

        if isinstance(layouts, Tensor):
            self._places[node] = place(layouts, None)
        else:
            self._places[node] = [place(layout, index) for index, layout in enumerate(layouts)]

    def _operator(self, node: fx.Node, target: OpOverload) -> None:
        declared = schema.declared_writes(target)
        pure = self._out_of_place(node, target, declared)
        if pure is not None:
            place = self._place(node.args[0])
            id = provisional(node)
            place.storage.version = self._emit(node, pure, (id,))
            self._add_value(id, place.storage.layout)
            self._places[node] = place
            return
        hidden = schema.hidden_writes(target, node.args, node.kwargs)
        updated = tuple(index for index in hidden if self._is_last_reader(node, index))
        written = tuple(argument for argument in (*declared, *hidden) if argument not in updated)
        layouts = node.meta["val"]
        several = isinstance(layouts, list | tuple)
        outputs: list[str | None] = []
        results: list[_Place | None] = []
        for index, layout in enumerate(layouts if several else [layouts]):
            source = schema.aliased_write(target, index) if isinstance(layout, Tensor) else None
            if source is not None:
                outputs.append(None)
                results.append(self._place(_argument(node, source)))
            elif isinstance(layout, Tensor):
                id = f"{provisional(node)}.{index}" if several else provisional(node)
                outputs.append(id)
                results.append(_Place(_Storage(layout, id), (), layout))
                self._add_value(id, layout)
            else:
                outputs.append(None)
                results.append(None)
        self._emit(node, target, tuple(outputs), written, updated)
        self._places[node] = results if several else results[0]

    def _emit(
        self,
        node: fx.Node,
        target: OpOverload,
        outputs: tuple[str | None, ...],
        written: tuple[int | str, ...] = (),
        updated: tuple[int, ...] = (),
    ) -> str:
        blank = {schema.position(target, name) for name in schema.shape_only(target)}
        args = [
            self._operand(argument, data=not (index in blank and (index not in written or self._whole(argument))))
            for index, argument in enumerate(node.args)
        ]
        kwargs = {name: self._operand(argument, data=True) for name, argument in node.kwargs.items()}
        for index in schema.unread(target, node.args, node.kwargs):
            args[index] = None
        writes = []
        for argument in written:
            storage = self._place(_argument(node, argument)).storage
            id = f"{provisional(node)}.write{argument}"
            writes.append(Write(argument, id))
            self._add_value(id, storage.layout)
            storage.version = id
        custom = node.meta.get("custom") or {"module": "", "backward": False}
        random = schema.is_random(target, node.args, node.kwargs)
        self._operators.append(
            TracedOperator(
                id=provisional(node),
                target=target,
                args=tuple(args),
                kwargs=kwargs,
                outputs=outputs,
                backward=custom["backward"],
                module=custom["module"],
                writes=tuple(writes),
                after=(self._last_random,) if random and self._last_random else (),
                updates=tuple(args[index].source for index in updated),
                random=random,
                written=custom.get("written", Written()),
            )
        )
        if random:
            self._last_random = provisional(node)
        return provisional(node)

    def _place(self, argument: Any) -> _Place:
        place = self._places[argument]
        if not isinstance(place, _Place):
            raise UserError(
                f"{module_of(argument)} takes a number out of a tensor and goes on with it; keep it a tensor"
            )
        return place

    def _add_value(self, id: str, layout: Tensor) -> None:
        if layout.layout is not torch.strided:
            raise UserError(
                f"{module_of(self._node)} makes a sparse tensor; train dense ones (an embedding with sparse=False)"
            )
        if not all(isinstance(extent, int) for extent in layout.shape):
            what = depends_on_data(f"the shape of what {self._node.target} returns")
            raise UserError(f"{module_of(self._node)}: {what}")
        self._values[id] = TracedValue(
            id, layout.untyped_storage().nbytes(), tuple(layout.shape), layout.dtype, tuple(layout.stride())
        )

    def _operand(self, argument: Any, data: bool) -> Any:
        if isinstance(argument, fx.Node):
            return self._ref(self._place(argument)) if data else _blank(self._place(argument).layout)
        if isinstance(argument, list | tuple):
            return [self._operand(item, data) for item in argument]
        return argument

    def _ref(self, place: _Place) -> Ref:
        if place.storage.version is None:
            self._materialise(place.storage)
        layout = place.layout
        assert place.storage.version is not None
        return Ref(place.storage.version, place.views, tuple(layout.shape), tuple(layout.stride()), layout.dtype)

    def _materialise(self, storage: _Storage) -> None:
        """Somebody reads or partly writes fresh memory as it is: its allocation becomes an operator after all."""
        node = storage.creation
        assert node is not None and isinstance(node.target, OpOverload)
        storage.version = self._emit(node, node.target, (provisional(node),))
        self._add_value(provisional(node), storage.layout)

    def _out_of_place(self, node: fx.Node, target: OpOverload, declared: tuple[int | str, ...]) -> OpOverload | None:
        """The out-of-place form of an in-place operator, where it gives the same tensor in the same layout."""
        pure = schema.out_of_place(target) if declared == (0,) else None
        if pure is None or schema.is_random(target, node.args, node.kwargs):
            return None
        place = self._place(node.args[0])
        if not _same_layout(place.layout, place.storage.layout) or not isinstance(place.layout, FakeTensor):
            return None
        mode = place.layout.fake_mode

        def layout(argument: fx.Node) -> Tensor:
            given = self._place(argument).layout
            if not isinstance(given, FakeTensor) or given.fake_mode is mode:
                return given
            # What is made of tensors that nobody registered is of a mode of its own.
            return torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=given.device)

        with mode, torch.no_grad():
            args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), layout)
            result = pure(*args, **kwargs)
        return pure if _same_layout(result, place.layout) else None

    def _is_last_reader(self, node: fx.Node, index: int) -> bool:
        """Whether nothing else looks at a buffer, so that its update needs no version of its own."""
        buffer = cast(fx.Node, node.args[index])
        place = self._place(buffer)
        resident = place.storage.version in self._buffers and not place.views
        readers = [user for user in buffer.users if user is not node and not _ignores(user, buffer)]
        return resident and not readers

    def _whole(self, argument: Any) -> bool:
        """Whether an argument is a tensor without views, which a blank can stand for in a write."""
        return isinstance(argument, fx.Node) and not self._place(argument).views

    def _results(self, node: fx.Node) -> tuple[Ref, dict[str, Ref], dict[str, _Place], tuple[Kept, ...]]:
        loss_node, *others = cast(list[fx.Node], node.args[0])
        rest = iter(others)
        gradient_nodes, rebound_nodes = (
            [*itertools.islice(rest, len(names))] for names in (self._captured.trained, self._captured.rebound)
        )
        claimed: set[str] = set()
        name, kind = self._captured.result
        loss = self._claim(loss_node, poets_own(name), kind, claimed)
        gradients = {}
        for parameter, gradient in zip(self._captured.trained, gradient_nodes, strict=True):
            if gradient is not None:
                resident = poets_own(f"{parameter}.grad")
                gradients[parameter] = self._claim(gradient, resident, Kind.GRADIENT, claimed)
        rebound = zip(self._captured.rebound, map(self._place, rebound_nodes), strict=True)
        kept = [
            replace(place, refs=tuple(self._left(next(rest), f"kept{number}", claimed) for _ in range(count)))
            for number, (place, count) in enumerate(self._captured.kept)
        ]
        return loss, gradients, dict(rebound), tuple(kept)

    def _left(self, node: fx.Node, name: str, claimed: set[str]) -> Ref:
        """What is left in Python: what is there all the time as it is, else a result."""
        ref = self._ref(self._place(node))
        there = ref.source not in self._values
        return ref if there else self._claim(node, poets_own(f"{name}.{len(claimed)}"), Kind.OUTPUT, claimed)

    def _claim(self, node: fx.Node, resident: str, kind: Kind, claimed: set[str]) -> Ref:
        """Let a result live in a resident: its own value where that is the same numbers, else a copy of it."""
        ref = self._ref(self._place(node))
        if ref.source in claimed or ref.source not in self._values or not _one_to_one(ref, self._values[ref.source]):
            copy = f"{resident}.clone"
            self._operators.append(
                TracedOperator(
                    id=copy,
                    target=aten.clone.default,
                    args=(ref,),
                    kwargs={"memory_format": torch.contiguous_format},
                    outputs=(copy,),
                    backward=kind is Kind.GRADIENT,
                    module="",
                )
            )
            layout = torch.empty(ref.shape, dtype=ref.dtype, device="meta")
            self._add_value(copy, layout)
            ref = Ref(copy, (), ref.shape, tuple(layout.stride()), ref.dtype)
        claimed.add(ref.source)
        value = self._values[ref.source]
        self._values[ref.source] = replace(value, resident=resident)
        size = value.dtype.itemsize
        for extent in ref.shape:
            size *= extent
        self._residents.append(TracedResident(resident, kind, size, ref.shape, ref.dtype))
        return ref

    def _account_generator(self) -> None:
        draws = sum(operator.random for operator in self._operators)
        if draws:
            state = torch.get_rng_state()
            size, shape = draws * state.nbytes, (draws, state.numel())
            self._residents.append(TracedResident(poets_own("generator"), Kind.STATE, size, shape, state.dtype))

    def _update_residents(self, rebound: dict[str, _Place]) -> None:
        """Let what the step wrote, or put in a buffer's place, be what the next step starts from."""
        for name, storage in self._given.items():
            if name in rebound:
                contents = self._ref(rebound[name])
            elif storage.version != name:
                layout = storage.layout
                assert storage.version is not None
                contents = Ref(storage.version, (), tuple(layout.shape), tuple(layout.stride()), layout.dtype)
            else:
                continue
            if name in self._constants:
                writer = next(operator.id for operator in self._operators if contents.source in operator.values)
                node = next(node for node in self._captured.graph.graph.nodes if provisional(node) == writer)
                raise UserError(
                    f"{module_of(node)} writes into {_described(self._constants[name])}, which it has not registered; "
                    "register it with register_buffer"
                )
            old = Ref(name, (), contents.shape, contents.stride, contents.dtype)
            self._operators.append(
                TracedOperator(
                    id=poets_own(f"{name}.update"),
                    target=aten.copy_.default,
                    args=(old, contents),
                    kwargs={},
                    outputs=(None,),
                    backward=False,
                    module=name.rpartition(".")[0].strip("."),
                    updates=(name,),
                    recomputable=False,
                    written=next((one.written for one in self._operators if contents.source in one.values), Written()),
                )
            )


def provisional(node: fx.Node) -> str:
    """Id of an operator, and of its main value, until `naming` finds a better one."""
    return f".{node.name}"


def _described(constant: Tensor) -> str:
    return f"a tensor of shape {tuple(constant.shape)}"


def _same_layout(one: Tensor, other: Tensor) -> bool:
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
    )


def _argument(node: fx.Node, which: int | str) -> Any:
    return node.kwargs[which] if isinstance(which, str) else node.args[which]


def _blank(layout: Tensor) -> Blank:
    return Blank(tuple(layout.shape), tuple(layout.stride()), layout.dtype)


def _ignores(user: fx.Node, argument: fx.Node) -> bool:
    """Whether an operator is given a tensor that it never looks at."""
    if not isinstance(user.target, OpOverload):
        return False
    unread = schema.unread(user.target, user.args, user.kwargs)
    return all(index in unread for index, other in enumerate(user.args) if other is argument)


def _one_to_one(ref: Ref, value: TracedValue) -> bool:
    """Whether a view shows every element of a value exactly once."""
    count = 1
    for extent in ref.shape:
        count *= extent
    stretched = any(stride == 0 and extent > 1 for stride, extent in zip(ref.stride, ref.shape, strict=True))
    return count * value.dtype.itemsize == value.bytes and not stretched and ref.dtype == value.dtype
