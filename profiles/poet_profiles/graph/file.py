# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the costed graph, `poet-graph/1` (docs/SPEC.md, section 3), and its hash."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from poet_profiles.errors import FaultError, UserError
from poet_profiles.files.document_hash import document_hash
from poet_profiles.files.json_file import check_document, of_format, read_document
from poet_profiles.files.whole_file import write_whole
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, PageCost, Part, Refusal, Resident, Uses, Value
from poet_profiles.graph.model import I8, I16, U8
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.validation import check_graph, refuse_unsound
from poet_profiles.profile import SOURCES

FORMAT = "poet-graph/1"
_WORDS, NARROW = ("f32", "i32"), (I8, U8, I16)
KEPT_KINDS = ("parameter", "state", "constant", "input", "target")
RESIDENT_KINDS = (*KEPT_KINDS, "gradient", "loss", "output", "feature", "history")

_CRC32 = re.compile("[0-9a-f]{8}")
_REFUSAL_KEYS = ("where", "lacks", "cure")
_CARD_KEYS = ("card_time_s", "card_energy_j")
_PAGE_KEYS = ("page_out_time_s", "page_out_energy_j", "page_in_time_s", "page_in_energy_j")


def read_graph(path: Path) -> Graph:
    """Read a costed graph.

    Raises
    ------
    UserError
        In one line: what is wrong, in which file and node, and what to do.
    """
    return read_document(path, graph_from_document)


def write_graph(graph: Graph, path: Path) -> None:
    """Write ``graph`` as `poet-graph/1`.

    Raises
    ------
    UserError
        If :func:`read_graph` would refuse it.
    """
    refuse_unsound(graph)
    document = document_of_graph(graph)
    try:
        check_document(document)
    except FaultError as fault:
        raise UserError(f"{graph.name}: {fault}; rename what it is called after") from None
    write_whole(path, json.dumps(document, indent=1) + "\n")


@once_a_graph
def graph_hash(graph: Graph) -> str:
    """Hash of the structure alone, 16 hex digits: equal for graphs that differ only in names and costs."""
    structure: dict[str, Any] = {
        "nodes": [
            [
                node.id,
                node.workspace_bytes,
                [[value.id, value.bytes] for value in node.values],
                node.operation.op if node.operation else None,
                node.operation.params if node.operation else None,
                list(node.operation.operands) if node.operation else [],
                list(node.operation.results) if node.operation else [],
            ]
            for node in graph.nodes
        ],
        "edges": sorted([value, node.id] for node in graph.nodes for value in node.inputs),
        "residents": [[r.id, r.kind, r.bytes, r.offset] for r in graph.residents],
        "resident_bytes": graph.resident_bytes,
    }
    if graph.constants:
        structure["constants"] = [[c.id, c.bytes, c.offset, c.crc32] for c in graph.constants]
    if graph.kept:
        structure["kept"] = [[kept.id, kept.kind, kept.bytes] for kept in graph.kept]
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    if parts := [[tensor.id, tensor.part.of, list(tensor.part.start)] for tensor in tensors if tensor.part]:
        structure["parts"] = parts
    if rows := [[kept.id, kept.rows] for kept in graph.kept if kept.rows != 1]:
        structure["rows"] = rows
    if uses := [[node.id, node.uses] for node in graph.nodes if node.uses is not Uses.CPU]:
        structure["uses"] = uses
    if over := [[node.id, value, place] for node in graph.nodes for value, place in sorted(node.takes_over.items())]:
        structure["takes_over"] = over
    if graph.micro_batches > 1:
        structure["micro_batches"] = graph.micro_batches
    return document_hash(structure)


def graph_from_document(document: Any) -> Graph:
    """Build a graph from parsed JSON; raises a fault that lacks only the file's name."""
    top = of_format(document, FORMAT)
    inputs = _inputs_by_node(top)
    nodes = tuple(_node(entry, inputs) for entry in _list(top, "nodes", "the file"))
    graph = Graph(
        name=str(top.get("name", "")),
        nodes=nodes,
        resident_bytes=_count(top, "resident_bytes", "the file", 0),
        dma=_flag(top, "dma", "the file", False),
        residents=tuple(_resident(entry) for entry in _list(top, "residents", "the file", [])),
        constants=tuple(_constant(entry) for entry in _list(top, "constants", "the file", [])),
        kept=tuple(_kept(entry) for entry in _list(top, "kept", "the file", [])),
        allocates=_flag(top, "allocates", "the file", False),
        micro_batches=_at_least_one(top, "micro_batches", "the file"),
        source=_source(top.get("source", "")),
    )
    for node in inputs.keys() - {node.id for node in nodes}:
        raise FaultError(f"edge {next(iter(inputs[node]))} -> {node}: there is no node {node}; correct the id")
    check_graph(graph)
    return graph


def _source(given: Any) -> str:
    words = given.split("+") if isinstance(given, str) else [given]
    if given != "" and not all(word in SOURCES for word in words):
        raise FaultError(f'"source" is {given!r}; it must be one of {", ".join(SOURCES)}, or several joined by +')
    return str(given)


def document_of_graph(graph: Graph) -> dict[str, Any]:
    """The JSON form of a graph."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "name": graph.name,
        "resident_bytes": graph.resident_bytes,
        "dma": graph.dma,
        "nodes": [_node_document(node) for node in graph.nodes],
        "edges": [[value, node.id] for node in graph.nodes for value in node.inputs],
    }
    if graph.source:
        document["source"] = graph.source
    if graph.allocates:
        document["allocates"] = True
    if graph.micro_batches > 1:
        document["micro_batches"] = graph.micro_batches
    if graph.residents:
        document["residents"] = [
            {
                "id": r.id,
                "kind": r.kind,
                "bytes": r.bytes,
                "offset": r.offset,
                "shape": list(r.shape),
                **({"dtype": r.dtype} if r.dtype else {}),
                **_part_document(r),
            }
            for r in graph.residents
        ]
    if graph.constants:
        document["constants"] = [
            {"id": c.id, "bytes": c.bytes, "offset": c.offset, "shape": list(c.shape), "crc32": c.crc32}
            | ({"dtype": c.dtype} if c.dtype else {})
            for c in graph.constants
        ]
    if graph.kept:
        document["kept"] = [
            {
                "id": k.id,
                "kind": k.kind,
                "bytes": k.bytes,
                "shape": list(k.shape),
                **({"rows": k.rows} if k.rows != 1 else {}),
                **({"dtype": k.dtype} if k.dtype else {}),
                **_part_document(k),
            }
            for k in graph.kept
        ]
    return document


def _part_document(tensor: Resident | Kept) -> dict[str, Any]:
    return {"part": {"of": tensor.part.of, "start": list(tensor.part.start)}} if tensor.part else {}


def _mapping(entry: Any, where: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise FaultError(f"{where} is not a JSON object")
    return entry


def _list(entry: dict[str, Any], key: str, where: str, default: list[Any] | None = None) -> list[Any]:
    value = entry.get(key, default)
    if value is None:
        raise FaultError(f'{where} lacks "{key}"')
    if not isinstance(value, list):
        raise FaultError(f'{where}: "{key}" is not a list')
    return value


def _id(entry: dict[str, Any], where: str) -> str:
    value = entry.get("id")
    if not isinstance(value, str) or not value:
        raise FaultError(f'{where} lacks an "id" (a string that is not empty)')
    return value


def _cost(entry: dict[str, Any], key: str, where: str) -> float:
    if key not in entry:
        raise FaultError(f'{where} lacks "{key}"')
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FaultError(f'{where}: "{key}" is {value!r}, not a number')
    try:
        cost = float(value)
    except OverflowError:
        cost = math.inf
    if not math.isfinite(cost) or cost < 0:
        raise FaultError(f'{where}: "{key}" is {cost}; a cost is finite and not negative')
    return cost


def _count(entry: dict[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if value is None:
        raise FaultError(f'{where} lacks "{key}"')
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise FaultError(f'{where}: "{key}" is {value!r}; it must be a whole number of bytes, not negative')
    return value


def _flag(entry: dict[str, Any], key: str, where: str, default: bool) -> bool:
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise FaultError(f'{where}: "{key}" is {value!r}; it must be true or false')
    return value


def _refusal(entry: dict[str, Any], where: str) -> Refusal | None:
    if "refused" not in entry:
        return None
    words = _mapping(entry["refused"], f'{where}: "refused"')
    if words.keys() != set(_REFUSAL_KEYS) or not all(isinstance(text, str) for text in words.values()):
        raise FaultError(f'{where}: "refused" must have {", ".join(_REFUSAL_KEYS)}, all strings')
    return Refusal(**words)


def _strings(entry: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = _list(entry, key, where, [])
    if not all(isinstance(value, str) for value in values):
        raise FaultError(f'{where}: "{key}" must be a list of ids')
    return tuple(values)


def _inputs_by_node(top: dict[str, Any]) -> dict[str, dict[str, None]]:
    """Distinct inputs of each node, in the file's order (a dictionary as an ordered set)."""
    inputs: dict[str, dict[str, None]] = {}
    for edge in _list(top, "edges", "the file"):
        if not isinstance(edge, list) or len(edge) != 2 or not all(isinstance(end, str) for end in edge):
            raise FaultError(f'edge {edge!r} is not ["value id", "node id"]')
        value, node = edge
        inputs.setdefault(node, {})[value] = None
    return inputs


def _page(entry: dict[str, Any], where: str) -> PageCost | None:
    costs = {key: _cost(entry, key, where) for key in _PAGE_KEYS if key in entry}
    if len(costs) < len(_PAGE_KEYS) or not _flag(entry, "pageable", where, True):
        return None
    return PageCost(*(costs[key] for key in _PAGE_KEYS))


def _value(entry: dict[str, Any], where: str) -> Value:
    return Value(_id(entry, where), _count(entry, "bytes", where), _page(entry, where))


def _node(entry: Any, inputs: dict[str, dict[str, None]]) -> Node:
    entry = _mapping(entry, "an entry of nodes")
    id = _id(entry, "an entry of nodes")
    where = f"node {id}"
    if "outputs" in entry:
        if "bytes" in entry:
            raise FaultError(f'{where} has both "bytes" and "outputs"; keep one')
        outputs = [_mapping(output, f"{where}: an output") for output in _list(entry, "outputs", where)]
        values = tuple(_value(output, f"{where}: output {output.get('id')}") for output in outputs)
    else:
        values = (_value(entry, where),)
    return Node(
        id=id,
        time_s=_cost(entry, "time_s", where),
        energy_j=_cost(entry, "energy_j", where),
        values=values,
        inputs=tuple(inputs.get(id, ())),
        workspace_bytes=_count(entry, "workspace_bytes", where, 0),
        recomputable=_flag(entry, "recomputable", where, True),
        backward=_flag(entry, "backward", where, False),
        operation=_operation(entry, where),
        refused=_refusal(entry, where),
        uses=_uses(entry, where),
        takes_over=_takes_over(entry, where),
        **{key: _cost(entry, key, where) for key in _CARD_KEYS if key in entry},
    )


def _operation(entry: dict[str, Any], where: str) -> Operation | None:
    if entry.get("op") is None:
        return None
    op, params = entry["op"], entry.get("params", "")
    if not isinstance(op, str) or not isinstance(params, str):
        raise FaultError(f'{where}: "op" and "params" must be strings')
    return Operation(op, params, _strings(entry, "inputs", where), _strings(entry, "results", where))


def _uses(entry: dict[str, Any], where: str) -> Uses:
    name = entry.get("uses", Uses.CPU)
    if name not in list(Uses):
        raise FaultError(f'{where}: "uses" is {name!r}; it must be one of {", ".join(Uses)}')
    return Uses(name)


def _takes_over(entry: dict[str, Any], where: str) -> dict[str, str]:
    over = _mapping(entry.get("takes_over", {}), f'{where}: "takes_over"')
    if not all(isinstance(place, str) for place in over.values()):
        raise FaultError(f'{where}: "takes_over" must have ids of values, each with that of an input')
    return dict(over)


def _resident(entry: Any) -> Resident:
    entry = _mapping(entry, "an entry of residents")
    id = _id(entry, "an entry of residents")
    where = f"resident {id}"
    kind, shape = _kind(entry, RESIDENT_KINDS, where), _shape(entry, where)
    size, offset = _count(entry, "bytes", where), _count(entry, "offset", where)
    return Resident(id, kind, size, offset, shape, _part(entry, where), _dtype(entry, where))


def _kept(entry: Any) -> Kept:
    entry = _mapping(entry, "an entry of kept")
    id = _id(entry, "an entry of kept")
    where = f"kept tensor {id}"
    kind, size = _kind(entry, KEPT_KINDS, where), _count(entry, "bytes", where)
    rows = _at_least_one(entry, "rows", where)
    return Kept(id, kind, size, _shape(entry, where), _part(entry, where), rows, _dtype(entry, where))


def _at_least_one(entry: dict[str, Any], key: str, where: str) -> int:
    number = entry.get(key, 1)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise FaultError(f'{where}: "{key}" is {number!r}; it must be a whole number, at least 1')
    return number


def _part(entry: dict[str, Any], where: str) -> Part | None:
    if "part" not in entry:
        return None
    part = _mapping(entry["part"], f'{where}: "part"')
    of, start = part.get("of"), part.get("start")
    if not isinstance(of, str) or not isinstance(start, list) or not all(type(at) is int and at >= 0 for at in start):
        raise FaultError(f'{where}: "part" must have "of", an id, and "start", a list of places')
    return Part(of, tuple(start))


def _kind(entry: dict[str, Any], kinds: tuple[str, ...], where: str) -> str:
    kind = entry.get("kind")
    if kind not in kinds:
        raise FaultError(f'{where}: "kind" is {kind!r}; it must be one of {", ".join(kinds)}')
    return str(kind)


def _constant(entry: Any) -> Constant:
    entry = _mapping(entry, "an entry of constants")
    id = _id(entry, "an entry of constants")
    where = f"constant {id}"
    crc32 = entry.get("crc32")
    if not isinstance(crc32, str) or not _CRC32.fullmatch(crc32):
        raise FaultError(f'{where}: "crc32" is {crc32!r}; it must be 8 hex digits in lower case')
    size, offset = _count(entry, "bytes", where), _count(entry, "offset", where)
    return Constant(id, size, offset, _shape(entry, where), crc32, _dtype(entry, where))


def _dtype(entry: dict[str, Any], where: str) -> str | None:
    """None of words, whose type the operators say that read them."""
    dtype = entry.get("dtype", _WORDS[0])
    if dtype not in (*_WORDS, *NARROW):
        raise FaultError(f'{where}: "dtype" is {dtype!r}; it must be one of {", ".join((*_WORDS, *NARROW))}')
    return dtype if dtype in NARROW else None


def _shape(entry: dict[str, Any], where: str) -> tuple[int, ...]:
    shape = _list(entry, "shape", where, [])
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise FaultError(f'{where}: "shape" must be a list of extents')
    return tuple(shape)


def _node_document(node: Node) -> dict[str, Any]:
    document: dict[str, Any] = {"id": node.id, "time_s": node.time_s, "energy_j": node.energy_j}
    if len(node.values) == 1 and node.values[0].id == node.id:
        document |= _value_document(node.values[0])
    else:
        document["outputs"] = [_value_document(value) for value in node.values]
    document["workspace_bytes"] = node.workspace_bytes
    document["recomputable"] = node.recomputable
    document["backward"] = node.backward
    if node.operation:
        document["op"] = node.operation.op
        document["params"] = node.operation.params
        document["inputs"] = list(node.operation.operands)
        document["results"] = list(node.operation.results)
    if node.refused:
        document["refused"] = asdict(node.refused)
    if node.uses is not Uses.CPU:
        document["uses"] = node.uses.value
    if node.takes_over:
        document["takes_over"] = dict(node.takes_over)
    document |= {key: cost for key in _CARD_KEYS if (cost := getattr(node, key))}
    return document


def _value_document(value: Value) -> dict[str, Any]:
    document: dict[str, Any] = {"id": value.id, "bytes": value.bytes}
    if value.page:
        costs = (value.page.out_time_s, value.page.out_energy_j, value.page.in_time_s, value.page.in_energy_j)
        document |= dict(zip(_PAGE_KEYS, costs, strict=True))
    return document
