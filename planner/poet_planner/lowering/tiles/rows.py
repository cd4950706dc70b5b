# SPDX-License-Identifier: Apache-2.0
"""A first convolution, its activation and its pooling, computed in bands of rows, and its gradient likewise.

What lies between a picture and the pooled maxima is the largest of a small network. In bands it exists a few rows at a
time: each band's maxima are put into the tensor that the bands before have filled, and on the way back each band adds
to the weights' gradient so far. All bits are those of the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from poet_profiles.firmware.operators import LOOK_UP, OPERATORS, ROWS, params_key, parse_params, positions, way_of
from poet_profiles.firmware.steps import POINTWISE, alone, pointwise_params, steps_in
from poet_profiles.graph import Graph, Node, Operation, Value

from poet_planner.lowering.draft import added

_CONV, _GRADIENT, _POOL = "conv2d", "conv2d_backward_weight", "max_pool2d"


class _Band(NamedTuple):
    """Rows of the pooling's result, from `at` to `end`, and of the convolution's."""

    at: int
    end: int
    top: int
    rows: int


@dataclass(frozen=True)
class _Chain:
    """Nodes that follow one another, each read by the next alone, and the gradient's; some chains have no all."""

    look_up: Node | None
    conv: Node
    activation: Node | None
    pool: Node
    unpool: Node | None
    gradient: Node | None

    @property
    def nodes(self) -> list[Node]:
        found = (self.look_up, self.conv, self.activation, self.pool, self.unpool, self.gradient)
        return [node for node in found if node is not None]


def with_bands(graph: Graph, bands: int) -> Graph:
    """The same step with such chains in at most so many bands; the same graph where there are none."""
    instead: dict[str, list[Node]] = {}
    for chain in _chains(graph):
        instead |= {node.id: [] for node in chain.nodes}
        cut = _Cut(chain, graph, bands)
        instead[chain.pool.id] = list(cut.forward())
        if chain.gradient is not None:
            instead[chain.gradient.id] = list(cut.backward())
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in instead.get(node.id, [node])))


def _chains(graph: Graph) -> Iterator[_Chain]:
    makers = {value.id: node for node in graph.nodes for value in node.values}
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for id in node.inputs:
            readers[id].append(node)

    def only(node: Node | None) -> Node | None:
        """The reader of a node's one value, if there is one."""
        if node is None or len(node.values) != 1 or len(readers[node.values[0].id]) != 1:
            return None
        return readers[node.values[0].id][0]

    for pool in graph.nodes:
        if _op(pool) != _POOL or not _is_plain_pool(pool) or pool.operation is None:
            continue
        before = makers.get(pool.operation.operands[0])
        activation = before if before is not None and _is_of_one(before) else None
        if activation is not None and activation.operation is not None:
            before = makers.get(activation.operation.operands[0])
        if before is None or _op(before) != _CONV or not _is_direct(before) or before.operation is None:
            continue
        if only(before) is not (activation or pool) or (activation is not None and only(activation) is not pool):
            continue
        x = before.operation.operands[0]
        look_up = makers.get(x)
        if look_up is not None and (_op(look_up) != LOOK_UP or len(look_up.values) != 1):
            continue
        gradients = [node for node in graph.nodes if _op(node) == _GRADIENT and _reads(node, 1, x)]
        unpools = [
            node for node in graph.nodes if _op(node) == f"{_POOL}_backward" and _reads(node, 1, _result(pool, 1))
        ]
        others = {node.id for node in readers[x]} - {before.id, *(node.id for node in gradients)}
        if len(gradients) > 1 or len(unpools) != len(gradients) or (look_up is not None and others):
            continue
        unpool, gradient = (*unpools, None)[0], (*gradients, None)[0]
        if only(unpool) is gradient:
            yield _Chain(look_up, before, activation, pool, unpool, gradient)


def _op(node: Node) -> str:
    return node.operation.op if node.operation else ""


def _reads(node: Node, place: int, id: str) -> bool:
    return node.operation is not None and node.operation.operands[place] == id


def _result(node: Node, place: int) -> str:
    return node.operation.results[place] if node.operation else ""


def _is_plain_pool(pool: Node) -> bool:
    """Whether it sees each row once, and its places are whole words."""
    p = parse_params(pool.operation.params) if pool.operation else {}
    rows, columns = positions(p)
    plain = (p["ph"], p["pw"], p["sh"]) == (0, 0, p["r"]) and rows * p["r"] == p["h"]
    return plain and len(pool.values) == 2 and p["n"] * p["c"] * rows * columns % 4 == 0


def _is_direct(conv: Node) -> bool:
    """Of one sample, computed neither by an algorithm for whole planes nor as one long row."""
    p = parse_params(conv.operation.params) if conv.operation else {}
    return (p["n"], p["g"]) == (1, 1) and p["ph"] < p["r"] and way_of(p) == "direct" and (p["r"], p["s"]) != (1, 1)


def _is_of_one(node: Node) -> bool:
    """Whether it is one step of one operand."""
    if node.operation is None or node.operation.op != POINTWISE or len(node.operation.operands) != 1:
        return False
    return alone([*steps_in(parse_params(node.operation.params))]) is not None


class _Cut:
    """A chain's nodes by bands."""

    def __init__(self, chain: _Chain, graph: Graph, bands: int) -> None:
        assert chain.conv.operation is not None and chain.pool.operation is not None
        self._chain, self._bands = chain, bands
        self._conv, self._pool = parse_params(chain.conv.operation.params), parse_params(chain.pool.operation.params)
        self._of = positions(self._pool)[0]
        self._values = {value.id for node in graph.nodes for value in node.values}

    def _each(self) -> Iterator[tuple[int, _Band]]:
        count = min(self._bands, self._of)
        for number in range(count):
            at, end = self._of * number // count, self._of * (number + 1) // count
            yield number, _Band(at, end, at * self._pool["r"], (end - at) * self._pool["r"])

    def forward(self) -> Iterator[Node]:
        chain, p = self._chain, self._conv
        assert chain.conv.operation is not None
        so_far = yield from self._begun(chain.pool)
        for number, band in self._each():
            x, rows = yield from self._picture(chain.conv, number, band)
            operands = x, *chain.conv.operation.operands[1:]
            value, node = self._made(chain.conv, number, f"{_CONV}{ROWS}", {**p, **rows}, operands)
            yield node
            if chain.activation is not None and chain.activation.operation is not None:
                steps = steps_in(parse_params(chain.activation.operation.params))
                params = pointwise_params(p["k"] * band.rows * self._pool["w"], steps)
                value, node = self._made(chain.activation, number, POINTWISE, params, (value,))
                yield node
            so_far, node = self._filled(chain.pool, number, band, self._pooled(band), (value, *so_far))
            yield node

    def backward(self) -> Iterator[Node]:
        chain, p = self._chain, self._conv
        assert chain.gradient is not None and chain.unpool is not None and chain.unpool.operation is not None
        so_far = yield from self._begun(chain.gradient)
        for number, band in self._each():
            operands = chain.unpool.operation.operands
            gy, node = self._made(chain.unpool, number, f"{_POOL}_backward{ROWS}", self._pooled(band), operands)
            yield node
            x, rows = yield from self._picture(chain.gradient, number, band)
            params = {**p, **rows, "bias": len(so_far) - 1}
            so_far, node = self._filled(chain.gradient, number, band, params, (gy, x, *so_far))
            yield node

    def _begun(self, like: Node) -> Generator[Node, None, tuple[str, ...]]:
        """What the bands fill, and add to."""
        assert like.operation is not None
        sizes = OPERATORS[like.operation.op].sizes(parse_params(like.operation.params)).outputs
        names = tuple(added(like.id, f"begun{place}") for place in range(len(sizes)))
        for name, size in zip(names, sizes, strict=True):
            params = {"size": size // 4, "value_nano": 0}
            operation = Operation("fill", params_key("fill", params), (), (name,))
            yield self._node(like, name, operation, (Value(name, size),), 0)
        return names

    def _picture(self, reader: Node, number: int, band: _Band) -> Generator[Node, None, tuple[str, dict[str, int]]]:
        """What a band reads, rows that are looked up for it or the input where it lies, and parameters that say so."""
        chain, p = self._chain, self._conv
        assert chain.conv.operation is not None
        top = band.top * p["sh"] - p["ph"]
        rows = {"rows": band.rows, "of": band.rows}
        if chain.look_up is None or chain.look_up.operation is None:
            return chain.conv.operation.operands[0], {**rows, "top": top}
        low, high = max(0, top), min(p["h"], top + (band.rows - 1) * p["sh"] + p["r"])
        params = {**p, "top": low, "rows": high - low}
        operands = chain.look_up.operation.operands
        x, node = self._made(chain.look_up, number, f"{LOOK_UP}{ROWS}", params, operands, reader)
        yield node
        return x, {**rows, "top": top - low, "h": high - low}

    def _pooled(self, band: _Band) -> dict[str, int]:
        return {**self._pool, "h": band.rows, "of": self._of, "at": band.at}

    def _filled(
        self, like: Node, number: int, band: _Band, params: Mapping[str, int], operands: tuple[str, ...]
    ) -> tuple[tuple[str, ...], Node]:
        """A node that makes more of what bands fill: the last gives what the whole does, wherever that lives."""
        assert like.operation is not None
        op = f"{like.operation.op}{ROWS}"
        sizes = OPERATORS[op].sizes(params)
        name, values, results = like.id, like.values, like.operation.results
        if band.end < self._of:
            name = added(like.id, f"rows{number}")
            values = tuple(Value(f"{name}.{place}", size) for place, size in enumerate(sizes.outputs))
            results = tuple(value.id for value in values)
        operation = Operation(op, params_key(op, params), operands, results)
        return results, self._node(like, name, operation, values, sizes.workspace)

    def _made(
        self,
        like: Node,
        number: int,
        op: str,
        params: Mapping[str, int],
        operands: tuple[str, ...],
        reader: Node | None = None,
    ) -> tuple[str, Node]:
        """A node with one value, and its id."""
        name, sizes = added((reader or like).id, f"{op}{number}"), OPERATORS[op].sizes(params)
        operation = Operation(op, params_key(op, params), operands, (name,))
        return name, self._node(reader or like, name, operation, (Value(name, sizes.outputs[0]),), sizes.workspace)

    def _node(self, like: Node, name: str, operation: Operation, values: tuple[Value, ...], workspace: int) -> Node:
        self._values |= {value.id for value in values}
        inputs = tuple(dict.fromkeys(id for id in operation.operands if id in self._values))
        return Node(name, 0.0, 0.0, values, inputs, workspace, backward=like.backward, operation=operation)
