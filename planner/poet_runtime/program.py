# SPDX-License-Identifier: Apache-2.0
"""The program file, `poet-program/1` (docs/SPEC.md, section 10): a traced training step as data.

With it a board runs the step, or one of its operators, without the code of the model. A reader takes operators of
`torch.ops.aten` and plain values, and nothing that it would have to evaluate.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import torch
from poet_profiles.errors import FaultError
from poet_profiles.files.json_file import hash_in, of_format, read_document
from poet_profiles.files.whole_file import write_whole
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Action, Step
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from poet_runtime.traced_graph import (
    Blank,
    Kind,
    OptimizerUpdate,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    View,
    Write,
    row_major,
    through,
)

FORMAT = "poet-program/1"


@dataclass(frozen=True)
class Program:
    """A training step that a plan is for.

    Attributes
    ----------
    graph : TracedGraph
        Its operators. A program that has been read lacks what only the user's Python knows: the paths of modules, and
        the values of the batch that are no tensors.
    graph_hash : str
        Of the planned graph (docs/SPEC.md, section 3); schedules name the same.
    orderings : frozenset of str
        Ids of the planned graph's nodes and values that no operator stands for.
    """

    graph: TracedGraph
    graph_hash: str
    orderings: frozenset[str] = frozenset()

    @classmethod
    def of_plan(cls, traced: TracedGraph, planned: Graph) -> Program:
        """The program of a graph that was lowered for PyTorch: a node is an operator, an update or a mere ordering."""
        nodes = {node.id: node for node in planned.nodes}
        operators = tuple(
            replace(operator, workspace_bytes=nodes[operator.id].workspace_bytes) for operator in traced.operators
        )
        values = {value.id for node in planned.nodes for value in node.values}
        orderings = (nodes.keys() - {operator.id for operator in operators}) | (values - traced.values.keys())
        return cls(replace(traced, operators=operators), graph_hash(planned), frozenset(orderings))

    def why_unwritable(self) -> str | None:
        """What of it has no place in a file; None if it can be written."""
        try:
            document_of_program(self)
        except FaultError as fault:
            return str(fault)
        return None

    def steps(self, planned: Sequence[Step]) -> Iterator[Step]:
        """A schedule's steps without those of mere orderings; the value of an update's node is one, the node is not."""
        updates = {update.id for update in self.graph.optimizer_updates}
        for step in planned:
            if step.target not in self.orderings or (step.do is Action.COMPUTE and step.target in updates):
                yield step


def write_program(program: Program, path: Path) -> None:
    """Write a program, whole or not at all.

    Raises
    ------
    FaultError
        If an operator is none of ATen's, or an argument has no place in a file.
    """
    write_whole(path, json.dumps(document_of_program(program), separators=(",", ":"), allow_nan=False) + "\n")


def read_program(path: Path) -> Program:
    """Read a program.

    Raises
    ------
    UserError
        In one line: what is wrong, in which file and operator, and what to do.
    """
    return read_document(path, program_from_document)


def document_of_program(program: Program) -> dict[str, Any]:
    """The JSON form of a program."""
    graph = program.graph
    if graph.device != "cpu":
        raise FaultError(f"{graph.name} is on {graph.device}; a program is for the CPU")
    updates = [asdict(update) for update in graph.optimizer_updates]
    return {
        "format": FORMAT,
        "model": graph.name,
        "graph_hash": program.graph_hash,
        "residents": [_resident_document(resident, graph) for resident in graph.residents],
        "operators": [_operator_document(operator, graph) for operator in graph.operators],
        "bookkeeping": [_operator_document(operator, graph) for operator in graph.bookkeeping],
        "gradients": {parameter: encoded(ref) for parameter, ref in graph.gradients.items()},
        "loss": encoded(graph.loss),
        **({"optimizer_updates": updates} if updates else {}),
        "orderings": sorted(program.orderings),
    }


def program_from_document(document: Any) -> Program:
    """Build a program from parsed JSON; raises a fault that lacks only the file's name."""
    document = of_format(document, FORMAT)
    reader = _Reader()
    residents = [reader.resident(entry) for entry in _list(document, "residents", "the file")]
    operators = [reader.operator(entry) for entry in _list(document, "operators", "the file")]
    bookkeeping = [reader.operator(entry) for entry in _list(document, "bookkeeping", "the file")]
    gradients = document.get("gradients")
    if not isinstance(gradients, dict):
        raise FaultError('"gradients" is missing or not an object')
    graph = TracedGraph(
        name=_text(document, "model", "the file"),
        operators=tuple(operators),
        values=reader.values,
        residents=tuple(residents),
        gradients={name: reader.ref(entry, f"the gradient of {name}") for name, entry in gradients.items()},
        loss=reader.ref(document.get("loss"), "the loss"),
        constants=reader.constants,
        bookkeeping=tuple(bookkeeping),
        ranges=reader.ranges,
        optimizer_updates=tuple(reader.updates(document, gradients)),
    )
    orderings = _texts(document, "orderings", "the file")
    return Program(graph, hash_in(document, "graph_hash"), frozenset(orderings))


def encoded(argument: Any) -> Any:
    """An operator's argument as JSON."""
    if isinstance(argument, Ref):
        layout = layout_document(argument.shape, argument.dtype, argument.stride)
        views = [_view_document(view) for view in argument.views]
        return {"ref": argument.source, **({"views": views} if views else {}), **layout}
    if isinstance(argument, Blank):
        return {"blank": layout_document(argument.shape, argument.dtype, argument.stride)}
    if isinstance(argument, list | tuple):
        return [encoded(item) for item in argument]
    if argument is None or isinstance(argument, bool | int | str):
        return argument
    if isinstance(argument, float):
        return argument if math.isfinite(argument) else {"float": str(argument)}
    if isinstance(argument, complex):
        return {"complex": [encoded(argument.real), encoded(argument.imag)]}
    for name, kind in _NAMED.items():
        if isinstance(argument, kind):
            return {name: str(argument).removeprefix("torch.")}
    raise FaultError(f"{argument!r} has no place in a program")


def decoded(entry: Any, where: str) -> Any:
    """An argument without operands, from JSON."""
    if isinstance(entry, list):
        return [decoded(item, where) for item in entry]
    if not isinstance(entry, dict):
        return entry
    if len(entry) != 1:
        raise FaultError(f"{where}: {entry!r} is no argument")
    ((kind, value),) = entry.items()
    if kind == "blank":
        return layout_from_document(value, where)
    if kind == "float" and value in _FLOATS:
        return float(value)
    if kind == "complex" and isinstance(value, list) and len(value) == 2:
        return complex(*(_number(part, where) for part in value))
    return _named(kind, value, where)


def operator_named(name: str, where: str) -> OpOverload:
    """The operator of ATen that a name such as ``aten::relu.default`` stands for."""
    found = _NAME.fullmatch(name)
    packet = getattr(torch.ops.aten, found["operator"], None) if found else None
    target = getattr(packet, found["overload"], None) if found and isinstance(packet, OpOverloadPacket) else None
    if not isinstance(target, OpOverload):
        raise FaultError(f"{where}: there is no operator {name} in this PyTorch ({torch.__version__})")
    if any(argument.name == "filename" for argument in target._schema.arguments):
        raise FaultError(f"{where}: {name} opens a file; a program has no such operator")
    return target


def name_of(target: OpOverload) -> str:
    """The name of an operator in a program."""
    name = f"{target._schema.name}.{target._overloadname}"
    if _NAME.fullmatch(name) is None:
        raise FaultError(f"{name} is not an operator of ATen, and has no place in a program")
    return name


def layout_document(shape: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> dict[str, Any]:
    """Shape, type and strides of a tensor; the strides are left out where the tensor is contiguous."""
    document: dict[str, Any] = {"shape": list(shape), "dtype": str(dtype).removeprefix("torch.")}
    if stride is not None and tuple(stride) != row_major(shape):
        document["stride"] = list(stride)
    return document


def layout_from_document(entry: Any, where: str) -> Blank:
    """Shape, type and strides of a tensor, read."""
    if not isinstance(entry, dict):
        raise FaultError(f"{where} is not a JSON object")
    shape = _extents(entry, "shape", where)
    stride = _extents(entry, "stride", where) if "stride" in entry else row_major(shape)
    if len(stride) != len(shape):
        raise FaultError(f'{where}: "stride" and "shape" differ in length')
    dtype = _named("dtype", entry.get("dtype"), where)
    try:
        torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    except (RuntimeError, TypeError):  # Too large for 64 bits, or quantised.
        raise FaultError(f"{where}: PyTorch has no plain tensor {list(shape)} of {dtype}") from None
    return Blank(shape, stride, dtype)


_NAME = re.compile(r"aten::(?P<operator>[A-Za-z0-9_]+)\.(?P<overload>[A-Za-z0-9_]+)", re.ASCII)
_NAMED: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
    "device": torch.device,
}
_FLOATS = ("inf", "-inf", "nan")


def _resident_document(resident: TracedResident, graph: TracedGraph) -> dict[str, Any]:
    document = {
        "id": resident.id,
        "kind": resident.kind.value,
        "bytes": resident.bytes,
        **layout_document(resident.shape, resident.dtype, resident.stride),
        **dict(zip(("low", "high"), graph.ranges.get(resident.id, ()), strict=False)),
    }
    if resident.id in graph.constants:
        document["data"] = _packed(graph.constants[resident.id])
    return document


def _operator_document(operator: TracedOperator, graph: TracedGraph) -> dict[str, Any]:
    try:
        document: dict[str, Any] = {
            "id": operator.id,
            "op": name_of(operator.target),
            "args": encoded(operator.args),
            "outputs": [None if id is None else _value_document(graph.values[id], graph) for id in operator.outputs],
        }
        if operator.kwargs:
            document["kwargs"] = {name: encoded(value) for name, value in operator.kwargs.items()}
    except FaultError as fault:
        raise FaultError(f"{operator.id}: {fault}") from None
    if operator.writes:
        document["writes"] = [
            {"argument": write.argument, "value": _value_document(graph.values[write.value], graph)}
            for write in operator.writes
        ]
    optional = {
        "updates": list(operator.updates),
        "after": list(operator.after),
        "random": operator.random,
        "backward": operator.backward,
        "workspace_bytes": operator.workspace_bytes,
    }
    document.update((key, value) for key, value in optional.items() if value)
    if not operator.recomputable:
        document["recomputable"] = False
    return document


def _value_document(value: TracedValue, graph: TracedGraph) -> dict[str, Any]:
    document = {
        "id": value.id,
        "bytes": value.bytes,
        **layout_document(value.shape, value.dtype, value.stride),
    }
    if value.resident is not None:
        document["resident"] = value.resident
    return document


def _view_document(view: View) -> dict[str, Any]:
    document: dict[str, Any] = {"op": name_of(view.target), "args": encoded(view.args)}
    if view.kwargs:
        document["kwargs"] = {name: encoded(value) for name, value in view.kwargs.items()}
    if view.index is not None:
        document["index"] = view.index
    return document


def _packed(tensor: Tensor) -> str:
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return base64.b64encode(zlib.compress(data)).decode()


def _unpacked(text: Any, layout: Blank, where: str) -> Tensor:
    size = math.prod(layout.shape) * layout.dtype.itemsize
    try:
        if not isinstance(text, str):
            raise ValueError
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), size + 1)
    except (ValueError, OverflowError, binascii.Error, zlib.error):
        raise FaultError(f'{where}: "data" is damaged; write the program again') from None
    if len(data) != size:
        raise FaultError(f'{where}: "data" is not {size} bytes; write the program again')
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
    try:
        tensor = torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
    except RuntimeError:  # Few numbers, far apart.
        raise FaultError(f'{where}: "stride" is {list(layout.stride)}, for which there is no memory') from None
    return tensor.copy_(flat.view(layout.dtype).reshape(layout.shape))


class _Reader:
    """Residents, and operators in their order: each may name only what stands before it."""

    def __init__(self) -> None:
        self.values: dict[str, TracedValue] = {}
        self.constants: dict[str, Tensor] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self._layouts: dict[str, Blank] = {}
        self._residents: set[str] = set()
        self._operators: set[str] = set()

    def resident(self, entry: Any) -> TracedResident:
        id, layout = self._sized(entry, "a resident")
        self._residents.add(id)
        try:
            kind = Kind(entry.get("kind"))
        except ValueError:
            raise FaultError(f'{id}: "kind" is {entry.get("kind")!r}; it must be one of {", ".join(Kind)}') from None
        if kind is Kind.CONSTANT:
            self.constants[id] = _unpacked(entry.get("data"), layout, id)
        stride = None if layout.stride == row_major(layout.shape) else layout.stride
        return TracedResident(id, kind, _storage_bytes(entry, layout, id), layout.shape, layout.dtype, stride)

    def operator(self, entry: Any) -> TracedOperator:
        if not isinstance(entry, dict):
            raise FaultError("an operator is not a JSON object")
        id = _text(entry, "id", "an operator")
        if id in self._operators:
            raise FaultError(f"{id}: there are two operators of this name")
        target = operator_named(_text(entry, "op", id), id)
        args, kwargs = self._call(entry, target, id)
        updates, after = _texts(entry, "updates", id), _texts(entry, "after", id)
        for known, named in ((self._residents, updates), (self._operators, after)):
            for other in named:
                if other not in known:
                    raise FaultError(f"{id}: names {other}, which does not stand before it")
        outputs = tuple(None if output is None else self._value(output, id) for output in _list(entry, "outputs", id))
        if len(outputs) > len(target._schema.returns):
            raise FaultError(f"{id}: {name_of(target)} has not {len(outputs)} results")
        writing = _list(entry, "writes", id) if "writes" in entry else ()
        writes = tuple(self._write(write, args, kwargs, id) for write in writing)
        self._operators.add(id)
        return TracedOperator(
            id=id,
            target=target,
            args=args,
            kwargs=kwargs,
            outputs=outputs,
            backward=_flag(entry, "backward", False, id),
            module="",
            writes=writes,
            after=after,
            updates=updates,
            random=_flag(entry, "random", False, id),
            recomputable=_flag(entry, "recomputable", True, id),
            workspace_bytes=_bytes(entry, "workspace_bytes", id) if "workspace_bytes" in entry else 0,
        )

    def ref(self, entry: Any, where: str) -> Ref:
        """An operand that has to be one."""
        ref = self._argument(entry, where)
        if not isinstance(ref, Ref):
            raise FaultError(f'{where}: {entry!r} is no {{"ref": …}}')
        return ref

    def updates(self, document: dict[str, Any], gradients: dict[str, Any]) -> Iterator[OptimizerUpdate]:
        """The updates of parameters that have a gradient, at most one each."""
        updated: set[str] = set()
        for entry in _list(document, "optimizer_updates", "the file") if "optimizer_updates" in document else ():
            if not isinstance(entry, dict):
                raise FaultError("an update is not a JSON object")
            id = _text(entry, "id", "an update")
            parameter = _text(entry, "parameter", id)
            if id in self._operators:
                raise FaultError(f"{id}: there are two operators of this name")
            if parameter not in gradients or parameter in updated:
                raise FaultError(f"{id}: updates {parameter}, which has no gradient of its own")
            self._operators.add(id)
            updated.add(parameter)
            yield OptimizerUpdate(id, parameter, _bytes(entry, "workspace_bytes", id))

    def _call(self, entry: dict[str, Any], target: OpOverload, where: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(self._argument(argument, where) for argument in _list(entry, "args", where))
        given = entry.get("kwargs", {})
        if not isinstance(given, dict):
            raise FaultError(f'{where}: "kwargs" is not an object')
        kwargs = {name: self._argument(argument, where) for name, argument in given.items()}
        places = [argument.name for argument in target._schema.arguments if not argument.kwarg_only]
        wanted = {argument.name for argument in target._schema.arguments}
        if len(args) > len(places) or not kwargs.keys() <= wanted - set(places[: len(args)]):
            raise FaultError(f"{where}: {name_of(target)} has no such arguments")
        return args, kwargs

    def _argument(self, entry: Any, where: str) -> Any:
        if isinstance(entry, list):
            return [self._argument(item, where) for item in entry]
        if isinstance(entry, dict) and "ref" in entry:
            return self._ref(entry, where)
        return decoded(entry, where)

    def _ref(self, entry: dict[str, Any], where: str) -> Ref:
        source = entry["ref"]
        if not isinstance(source, str) or source not in self._layouts:
            raise FaultError(f"{where}: names {source!r}, which does not stand before it")
        layout = self._layouts[source]
        views = tuple(self._view(view, where) for view in _list(entry, "views", where)) if "views" in entry else ()
        seen = torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype, device="meta")
        try:
            seen = through(views, seen)
            ref = Ref(source, views, tuple(seen.shape), tuple(seen.stride()), seen.dtype)
        except Exception as error:
            first_line = str(error).partition("\n")[0]
            raise FaultError(f"{where}: {source} cannot be seen that way ({first_line})") from None
        if layout_from_document(entry, where) != Blank(ref.shape, ref.stride, ref.dtype):
            raise FaultError(f"{where}: {source} has another layout, seen that way, than the file says")
        return ref

    def _view(self, entry: Any, where: str) -> View:
        if not isinstance(entry, dict):
            raise FaultError(f"{where}: a view is not a JSON object")
        target = operator_named(_text(entry, "op", where), where)
        if any(argument.alias_info and argument.alias_info.is_write for argument in target._schema.arguments):
            raise FaultError(f"{where}: {name_of(target)} writes, and is no view")
        index = entry.get("index")
        if index is not None and not _is_whole(index):
            raise FaultError(f'{where}: "index" is {index!r}, not a whole number')
        args, kwargs = self._call({**entry, "args": [None, *_list(entry, "args", where)]}, target, where)
        return View(target, args[1:], kwargs, index)

    def _write(self, entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> Write:
        argument: Any = entry.get("argument") if isinstance(entry, dict) else None
        place = kwargs.get(argument) if isinstance(argument, str) else None
        if _is_whole(argument) and 0 <= argument < len(args):
            place = args[argument]
        if not isinstance(place, Ref | Blank):
            raise FaultError(f"{where}: writes {argument!r}, which is none of its operands")
        return Write(argument, self._value(entry.get("value"), where))

    def _value(self, entry: Any, where: str) -> str:
        id, layout = self._sized(entry, where)
        resident = entry.get("resident")
        if resident is not None and not (isinstance(resident, str) and resident in self._residents):
            raise FaultError(f"{id}: lives in {resident!r}, which is no resident")
        size = _storage_bytes(entry, layout, id)
        self.values[id] = TracedValue(id, size, layout.shape, layout.dtype, layout.stride, resident)
        return id

    def _sized(self, entry: Any, where: str) -> tuple[str, Blank]:
        """Id and layout of a resident or a value, which are known from then on."""
        if not isinstance(entry, dict):
            raise FaultError(f"{where} is not a JSON object")
        id = _text(entry, "id", where)
        if id in self._layouts:
            raise FaultError(f"{id}: there are two tensors of this name")
        self._layouts[id] = layout_from_document(entry, id)
        if "low" in entry or "high" in entry:
            low, high = entry.get("low"), entry.get("high")
            if not (_is_whole(low) and _is_whole(high) and low <= high):
                raise FaultError(f'{id}: "low" and "high" are {low!r} and {high!r}; not a range of whole numbers')
            self.ranges[id] = low, high
        return id, self._layouts[id]


def _number(entry: Any, where: str) -> float:
    number = decoded(entry, where)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise FaultError(f"{where}: {entry!r} is no number")
    try:
        return float(number)
    except OverflowError:
        raise FaultError(f"{where}: {entry!r} is larger than any float") from None


def _named(kind: str, name: Any, where: str) -> Any:
    """A type, a layout, a memory format or a device of PyTorch's."""
    if kind not in _NAMED or not isinstance(name, str):
        raise FaultError(f"{where}: {{{kind!r}: {name!r}}} is no argument")
    if kind == "device":
        try:
            return torch.device(name)
        except RuntimeError:
            raise FaultError(f"{where}: there is no device {name!r}") from None
    found = vars(torch).get(name)
    if not isinstance(found, _NAMED[kind]):
        raise FaultError(f"{where}: there is no {kind} {name!r} in this PyTorch ({torch.__version__})")
    return found


def _list(entry: dict[str, Any], key: str, where: str) -> list[Any]:
    value = entry.get(key)
    if not isinstance(value, list):
        raise FaultError(f'{where}: "{key}" is missing or not a list')
    return value


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise FaultError(f'{where}: "{key}" is {value!r}, not a string')
    return value


def _texts(entry: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = _list(entry, key, where) if key in entry else []
    if not all(isinstance(value, str) for value in values):
        raise FaultError(f'{where}: "{key}" is no list of ids')
    return tuple(values)


def _extents(entry: dict[str, Any], key: str, where: str) -> tuple[int, ...]:
    values = _list(entry, key, where)
    if not all(_is_whole(value) and value >= 0 for value in values):
        raise FaultError(f'{where}: "{key}" is {values!r}, not whole numbers')
    return tuple(values)


def _bytes(entry: dict[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if not _is_whole(value) or value < 0:
        raise FaultError(f'{where}: "{key}" is {value!r}; it must be a whole number of bytes, not negative')
    return value


def _storage_bytes(entry: dict[str, Any], layout: Blank, where: str) -> int:
    """``bytes`` of a tensor: of its storage, which may be larger than what the tensor spans."""
    size = _bytes(entry, "bytes", where)
    spanned = 1 + sum((extent - 1) * step for extent, step in zip(layout.shape, layout.stride, strict=True))
    least = spanned * layout.dtype.itemsize if all(layout.shape) else 0
    if size < least:
        raise FaultError(f'{where}: "bytes" is {size}, but {list(layout.shape)} of {layout.dtype} takes {least}')
    return size


def _flag(entry: dict[str, Any], key: str, default: bool, where: str) -> bool:
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise FaultError(f'{where}: "{key}" is {value!r}, neither true nor false')
    return value


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
