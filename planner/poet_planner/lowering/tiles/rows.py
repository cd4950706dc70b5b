# SPDX-License-Identifier: Apache-2.0
"""Values that are too large, computed in bands of rows: they exist a few rows at a time.

A value is banded where the operator that makes it and all that read it may be cut by rows (`axes`), on one side of the
loss. Operators that share banded values are a chain, and it is computed band by band, from top to bottom: what lies at
its border is whole, read where its rows are, or filled as bands come; sums go on from band to band. Rows that a later
band needs again are held. A large value that the way back reads may be computed there again. All bits are those of the
whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from poet_profiles.firmware.operators import ACCUMULATE, INFER, LOOK_UP, MATMUL, OPERATORS, RELU, ROWS, parse_params
from poet_profiles.firmware.steps import POINTWISE, Step, pointwise_params, steps_in
from poet_profiles.graph import Graph, Node, Value

from poet_planner.graph.layout import Bands
from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.tiles.axes import CONV, ByRows, Plane, axis_of, cut_of, planes_of
from poet_planner.lowering.tiles.filters import with_filters
from poet_planner.lowering.tiles.nodes import Maker, op_of, plain

Made = Callable[["_Chain", Node, int, int, int], Iterator[Node]]


def with_bands(graph: Graph, bands: Bands) -> Graph:
    """Cut a step into bands.

    It is the same graph where nothing can be cut, or bands would not be in order.
    """
    again = with_filters(_with_again(graph, bands.again_bytes), bands.above_bytes)
    planes = planes_of(again)
    banded = _banded(again, planes, bands.above_bytes)
    chains = _chains(again, banded)
    instead: dict[str, list[Node]] = {}
    for nodes in chains:
        made = _without_unread([*_Chain(again, nodes, planes, banded, bands.count).nodes()])
        instead |= {node.id: [] for node in nodes} | {nodes[-1].id: made}
    ordered = _in_order([new for node in again.nodes for new in instead.get(node.id, [node])])
    return graph if ordered is None else replace(again, nodes=tuple(ordered))


def _without_unread(nodes: list[Node]) -> list[Node]:
    """But for rows that are held after a value's last reader."""
    kept: list[Node] = []
    read = set[str]()
    for node in reversed(nodes):
        if added("", "held") not in node.id or node.id in read:
            kept.append(node)
            read.update(node.inputs)
    return kept[::-1]


def _readers(graph: Graph) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for id in node.inputs:
            found[id].append(node)
    return found


def _with_again(graph: Graph, above_bytes: int) -> Graph:
    """The same step, whose way back makes forward values above a size anew, if all that read them there have rows."""
    planes, readers = planes_of(graph), _readers(graph)
    makers = {value.id: node for node in graph.nodes for value in node.values}
    anew = {
        id
        for id, maker in makers.items()
        if not maker.backward and maker.recomputable and len(maker.values) == 1 and maker.values[0].bytes > above_bytes
        if id in planes and cut_of(maker, planes) is not None
        if all(cut_of(reader, planes) is not None for reader in readers[id] if reader.backward)
    }
    nodes: list[Node] = []
    names: dict[str, str] = {}

    def make(id: str) -> str:
        if id not in names:
            maker, names[id] = makers[id], added(id, "again")
            nodes.append(_reading(maker, make, {id} | anew, added(maker.id, "again"), names[id]))
        return names[id]

    for node in graph.nodes:
        read = node.backward and not anew.isdisjoint(node.inputs)
        nodes += [_reading(node, make, anew) if read else node]
    return replace(graph, nodes=tuple(nodes))


def _reading(
    node: Node, name: Callable[[str], str], renamed: set[str], id: str | None = None, result: str | None = None
) -> Node:
    """A node that reads what has other names, or another one like it, on the way back."""
    assert node.operation is not None
    operands = tuple(name(one) if one in renamed else one for one in node.operation.operands)
    inputs = tuple(name(one) if one in renamed else one for one in node.inputs)
    operation = replace(node.operation, operands=operands)
    if id is None or result is None:
        return replace(node, operation=operation, inputs=inputs)
    values = (replace(node.values[0], id=result),)
    operation = replace(operation, results=(result,))
    return replace(node, id=id, operation=operation, inputs=inputs, values=values, backward=True)


def _banded(graph: Graph, planes: Mapping[str, Plane], above_bytes: int) -> set[str]:
    """Values above a size that have rows for all that make and read them."""
    readers, found = _readers(graph), set[str]()
    for node in graph.nodes:
        axis = cut_of(node, planes)
        if axis is None or axis.sums or len(node.values) != 1 or node.values[0].bytes <= above_bytes:
            continue
        id, own = node.values[0].id, readers[node.values[0].id]
        if own and planes[id].bytes == node.values[0].bytes and all(_reads(one, id, node, planes) for one in own):
            found.add(id)
    return found


def _reads(reader: Node, id: str, maker: Node, planes: Mapping[str, Plane]) -> bool:
    """Whether a node reads a value by rows, on the side of the loss where that is made."""
    axis = cut_of(reader, planes)
    if axis is None or reader.operation is None or reader.backward != maker.backward:
        return False
    return all(
        letter != "." for one, letter in zip(reader.operation.operands, axis.operands, strict=False) if one == id
    )


def _chains(graph: Graph, banded: set[str]) -> list[list[Node]]:
    """Operators that banded values hold together, each in order."""
    chain_of: dict[str, list[Node]] = {}
    for node in graph.nodes:
        own = banded.intersection((*node.inputs, *(value.id for value in node.values)))
        if own:
            met = {id(chain_of[one]): chain_of[one] for one in sorted(own) if one in chain_of}
            whole = [node]
            for chain in met.values():
                whole = [*chain, *whole]
            for one in whole:
                for value in banded.intersection((*one.inputs, *(value.id for value in one.values))):
                    chain_of[value] = whole
    place = {node.id: index for index, node in enumerate(graph.nodes)}
    chains = {id(chain): chain for chain in chain_of.values()}
    return [sorted(chain, key=lambda node: place[node.id]) for chain in chains.values()]


def _in_order(nodes: Sequence[Node]) -> list[Node] | None:
    """The same nodes, each behind what it reads and else as they are; None: a chain would wait for itself."""
    makers = {value.id: node.id for node in nodes for value in node.values}
    sorter = TopologicalSorter({node.id: [makers[id] for id in node.inputs] for node in nodes})
    try:
        sorter.prepare()
    except CycleError:
        return None
    place, found = {node.id: index for index, node in enumerate(nodes)}, list[Node]()
    ready = sorted(place[id] for id in sorter.get_ready())
    while ready:
        node = nodes[ready.pop(0)]
        found.append(node)
        sorter.done(node.id)
        ready = sorted([*ready, *(place[id] for id in sorter.get_ready())])
    return found


class _Chain:
    """The nodes of one chain in bands."""

    def __init__(
        self, graph: Graph, nodes: list[Node], planes: Mapping[str, Plane], banded: set[str], count: int
    ) -> None:
        self._chain, self._planes, self._banded = nodes, planes, banded
        self._make = Maker(graph)
        self.node = self._make.node
        heights = [planes[value.id].rows for node in nodes for value in node.values if value.id in banded]
        self._count = min(count, *heights)
        # what is cheap to make again from what is whole
        looked_up = (plain(node).results[0] for node in nodes if op_of(node) == LOOK_UP)
        self._remade = banded.intersection(looked_up)
        self._ends = [self._demands(number) for number in range(self._count)]
        self._held = self._rows_to_hold()
        self._new: dict[str, str] = {}  # the rows that a band has made of a value, and what is held of it
        self._window: dict[str, str] = {}
        self._so_far: dict[str, tuple[str, ...]] = {}  # by node: what bands before have filled

    def nodes(self) -> Iterator[Node]:
        """Those of all bands."""
        for id, rows in self._held.items():
            maker = next(node for node in self._chain if id in (value.id for value in node.values))
            plane = self._planes[id]._replace(rows=rows)
            self._window[id] = added(id, "held")
            yield self._make.zeros(maker, self._window[id], plane.bytes)
        for node in self._chain:
            yield from self._begun(node)
        for number in range(self._count):
            for node in self._chain:
                if self._range(node, number)[0] < self._range(node, number)[1]:
                    yield from _MAKERS[op_of(node)](self, node, number, *self._range(node, number))

    def axis(self, node: Node) -> ByRows:
        found = axis_of(node)
        assert found is not None
        return found

    def _key(self, node: Node) -> str:
        """The value by whose rows a node goes on: its own, or the first plane that it sums over."""
        axis = self.axis(node)
        if not axis.sums:
            return plain(node).results[0]
        place = next(place for place, letter in enumerate(axis.operands) if letter != ".")
        return plain(node).operands[place]

    def _demands(self, number: int) -> dict[str, int]:
        """Of each banded value, how many rows there are after a band; of each node's key likewise."""
        ends: dict[str, int] = {}
        for node in self._chain:
            key = self._key(node)
            last = number == self._count - 1 and self.axis(node).sums
            if last or key not in self._banded or all(self._key(one) == key for one in self._reading(key)):
                ends[key] = self._planes[key].rows * (number + 1) // self._count
        makers = {value.id: node for node in self._chain for value in node.values}
        changed = True
        while changed:
            changed = False
            for node in reversed(self._chain):
                end = ends.get(self._key(node), 0)
                for id, letter in self._planes_read(node):
                    if id not in self._banded or not end:
                        continue
                    need = end if self._is_key(node, id, letter) else self._needs(node, end - 1, end)[1]
                    need = min(self._whole_windows(makers[id], need), self._planes[id].rows)
                    changed |= need > ends.get(id, 0)
                    ends[id] = max(need, ends.get(id, 0))
                if not self.axis(node).sums:
                    key = self._key(node)
                    ends[key] = min(self._whole_windows(node, ends.get(key, 0)), self._planes[key].rows)
        return ends

    def _is_key(self, node: Node, id: str, letter: str) -> bool:
        return self.axis(node).sums and id == self._key(node)

    @staticmethod
    def _whole_windows(maker: Node, rows: int) -> int:
        """So many rows, or as many more as make whole windows on the way back of a pooling."""
        if not op_of(maker).endswith("pool2d_backward"):
            return rows
        step = parse_params(plain(maker).params)["sh"]
        return -(-rows // step) * step

    def _reading(self, id: str) -> list[Node]:
        return [node for node in self._chain if id in node.inputs]

    def _planes_read(self, node: Node) -> Iterator[tuple[str, str]]:
        pairs = zip(plain(node).operands, self.axis(node).operands, strict=False)
        yield from ((id, letter) for id, letter in pairs if letter != ".")

    def _needs(self, node: Node, a: int, b: int) -> tuple[int, int]:
        return self.axis(node).rows(parse_params(plain(node).params), a, b)

    def _range(self, node: Node, number: int) -> tuple[int, int]:
        """Rows that a node goes on by in a band."""
        key = self._key(node)
        return self._before(key, number), self._ends[number].get(key, 0)

    def _rows_to_hold(self) -> dict[str, int]:
        """Of banded values whose readers need rows of earlier bands, how many are held at most."""
        most: dict[str, int] = {}
        for node in self._chain:
            for id, letter in self._planes_read(node):
                for number in range(self._count) if id in self._banded else ():
                    a, b = self._range(node, number)
                    if a == b:
                        continue
                    low, high = (a, b) if self._is_key(node, id, letter) else self._needs(node, a, b)
                    before, end = self._before(id, number), self._ends[number][id]
                    low, high = max(low, 0), min(high, self._planes[id].rows)
                    if (low < before or high < end) and id not in self._remade:
                        most[id] = max(most.get(id, 0), end - low)
        for id in most:
            new = [self._new_rows(id, number) for number in range(self._count)]
            most[id] = max(most[id], max(new) + 1)  # something is kept
        return most

    def _before(self, id: str, number: int) -> int:
        """Rows that there were before a band, and that it does not make again."""
        low = self._ends[number - 1].get(id, 0) if number else 0
        if id in self._remade:
            ranges = ((node, *self._range(node, number)) for node in self._reading(id))
            low = max(0, min((self._needs(node, a, b)[0] for node, a, b in ranges if a < b), default=low))
        return low

    def _new_rows(self, id: str, number: int) -> int:
        return self._ends[number].get(id, 0) - self._before(id, number)

    def _begun(self, node: Node) -> Iterator[Node]:
        """What bands fill, or add to."""
        op = plain(node).op
        if op == MATMUL + ACCUMULATE:
            self._so_far[node.id] = ()
        elif self.axis(node).sums or (self._key(node) not in self._banded and not self._is_at_once(node)):
            sizes = OPERATORS[op].sizes(parse_params(plain(node).params)).outputs
            names = tuple(added(node.id, f"begun{place}") for place in range(len(sizes)))
            self._so_far[node.id] = names
            for name, size in zip(names, sizes, strict=True):
                yield self._make.zeros(node, name, size)

    def _is_at_once(self, node: Node) -> bool:
        """Whether one band gives all, which then is copied."""
        all_rows = 0, self.rows_of(self._key(node))
        alone = self.axis(node).results.count("y") < 2
        return alone and any(self._range(node, number) == all_rows for number in range(self._count))

    def _is_last(self, node: Node, number: int) -> bool:
        return self._range(node, number)[1] == self.rows_of(self._key(node))

    # What makers ask for

    def rows_of(self, id: str) -> int:
        return self._planes[id].rows

    def plane_of(self, id: str) -> Plane:
        return self._planes[id]

    def is_banded(self, id: str) -> bool:
        return id in self._banded

    def tensor(self, node: Node, place: int, number: int, a: int, b: int) -> Iterator[Node | str]:
        """Cut rows of an operand, if they must be: nodes that do it, and the id of what they lie in."""
        id = plain(node).operands[place]
        plane = self._planes[id]
        first, rows, name = self.place_of(id, number)
        if (first, rows) == (a, b - a):
            yield name
            return
        if id in self._banded and (self._before(id, number), self._ends[number][id]) == (
            a,
            b,
        ):
            yield self._new[id]
            return
        cut = {"d0": 1, "d1": 1, "d2": plane.channels, "d3": (b - a) * plane.columns}
        steps = {"s0": 0, "s1": 0, "s2": rows * plane.columns, "s3": 1}
        at = {"offset": (a - first) * plane.columns, "size": plane.channels * rows * plane.columns}
        found = added(node.id, f"rows{number}.{place}")
        yield self.node(node, found, "strided_copy", {**cut, **steps, **at}, (name,), (found,))
        yield found

    def place_of(self, id: str, number: int) -> tuple[int, int, str]:
        """Where an operand's rows are: the first row that is there, how many, and in what."""
        if id not in self._banded:
            return 0, self._planes[id].rows, id
        end = self._ends[number][id]
        if id in self._held:
            return end - self._held[id], self._held[id], self._window[id]
        new = self._new_rows(id, number)
        return end - new, new, self._new[id]

    def made(
        self, node: Node, number: int, op: str, params: Mapping[str, int], operands: tuple[str, ...], rows: int
    ) -> Iterator[Node]:
        """What yields rows of a node's value; held rows go on by them, or the whole is filled."""
        id = plain(node).results[0]
        name = added(node.id, f"band{number}")
        yield self.node(node, name, op, params, operands, (name,))
        plane = self._planes[id]
        self._new[id] = name
        if id not in self._banded:
            yield self._shifted(node, number, plane, rows, plane.rows)
        elif id in self._held:
            yield self._shifted(node, number, plane, rows, self._held[id])

    def _shifted(self, node: Node, number: int, plane: Plane, rows: int, of: int) -> Node:
        id = plain(node).results[0]
        whole = id not in self._banded
        last = whole and self._is_last(node, number)
        name = node.id if last else added(node.id, f"held{number}")
        result, values = (id, node.values) if last else (name, None)
        before = self._window.get(id, "")
        if whole and node.id in self._so_far:
            before, self._so_far[node.id] = self._so_far[node.id][0], (result,)
        elif not whole:
            self._window[id] = result
        if rows == of:  # all at once
            params = {"d0": 1, "d1": 1, "d2": 1, "d3": plane.bytes // 4, "s0": 0, "s1": 0, "s2": 0, "s3": 1}
            params |= {"offset": 0, "size": plane.bytes // 4}
            return self.node(node, name, "strided_copy", params, (self._new[id],), (result,), values)
        shifted = {"rows": plane.channels, "kept": (of - rows) * plane.columns, "count": rows * plane.columns}
        return self.node(node, name, "shift", shifted, (self._new[id], before), (result,), values)

    def filled(
        self, node: Node, number: int, op: str, params: Mapping[str, int], operands: tuple[str, ...]
    ) -> Iterator[Node]:
        """More of what bands fill: the last gives what the whole does, wherever that lives."""
        so_far = self._so_far[node.id]
        if self._is_last(node, number):
            yield self.node(node, node.id, op, params, (*operands, *so_far), plain(node).results, node.values)
            return
        name = added(node.id, f"rows{number}")
        self._so_far[node.id] = tuple(added(name, str(place)) for place in range(len(so_far)))
        yield self.node(node, name, op, params, (*operands, *so_far), self._so_far[node.id])

    def added_to(self, node: Node, number: int, params: Mapping[str, int], operands: tuple[str, ...]) -> Iterator[Node]:
        """Columns of a sum in RAM, in the order of bands: 0 bytes say what comes before."""
        total = plain(node).results
        name = node.id if self._is_last(node, number) else added(node.id, f"rows{number}")
        before, self._so_far[node.id] = self._so_far[node.id], (name,)
        made = self.node(node, name, MATMUL + ACCUMULATE + ROWS, params, (*operands, *total), total, (Value(name, 0),))
        yield replace(made, inputs=(*made.inputs, *before))


def _read(found: Iterator[Node | str]) -> tuple[list[Node], str]:
    """Nodes that cut rows, and what they lie in."""
    *nodes, name = found
    return [node for node in nodes if isinstance(node, Node)], str(name)


def _params(node: Node) -> tuple[dict[str, int], tuple[str, ...]]:
    return parse_params(plain(node).params), plain(node).operands


def _convolved(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, (x, *weights) = _params(node)
    first, rows, name = chain.place_of(x, number)
    there = {"h": rows, "top": a * p["sh"] - p["ph"] - first, "rows": b - a, "of": b - a}
    params = {**p, **there, "first": 0, "filters": p["k"]}
    if node.operation is None or plain(node).op == CONV:
        yield from chain.made(node, number, CONV + ROWS, params, (name, *weights), b - a)
        return
    sums, plane = added(node.id, f"sums{number}"), chain.plane_of(plain(node).results[0])
    yield chain.node(node, sums, CONV + ROWS, params, (name, *weights))
    relu = pointwise_params(plane.channels * (b - a) * plane.columns, [Step("relu", "y0", ("x0",))])
    yield from chain.made(node, number, POINTWISE, relu, (sums,), b - a)


def _of_weights(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    cut, gy = _read(chain.tensor(node, 0, number, a, b))
    yield from cut
    first, rows, x = chain.place_of(operands[1], number)
    there = {"h": rows, "top": a * p["sh"] - p["ph"] - first, "rows": b - a, "of": b - a}
    yield from chain.filled(node, number, f"{CONV}_backward_weight{ROWS}", {**p, **there}, (gy, x))


def _of_input(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    low, high = chain.axis(node).rows(p, a, b)
    first, rows, gy = chain.place_of(operands[0], number)
    end = min(high, chain.rows_of(operands[0]))
    if first + rows != end or operands[0] == gy:
        first, rows = max(low, 0), end - max(low, 0)
        cut, gy = _read(chain.tensor(node, 0, number, first, end))
        yield from cut
    there = {"h": b - a, "top": first * p["sh"] - p["ph"] - a, "rows": rows, "of": rows, "bias": 0}
    yield from chain.made(node, number, f"{CONV}_backward_input{ROWS}", {**p, **there}, (gy, operands[1]), b - a)


def _pooled(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, _ = _params(node)
    low, high = chain.axis(node).rows(p, a, b)
    cut, x = _read(chain.tensor(node, 0, number, low, high))
    yield from cut
    band = {**p, "h": high - low}
    if plain(node).op == "max_pool2d":
        of = chain.rows_of(plain(node).results[0])
        yield from chain.filled(node, number, f"max_pool2d{ROWS}", {**band, "of": of, "at": a}, (x,))
    else:
        yield from chain.made(node, number, plain(node).op, band, (x,), b - a)


def _unpooled(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    low, high = a // p["sh"], b // p["sh"]
    band = {**p, "h": b - a}
    if plain(node).op.startswith("avg"):
        cut, gy = _read(chain.tensor(node, 0, number, low, high))
        yield from cut
        yield from chain.made(node, number, plain(node).op, band, (gy,), b - a)
        return
    own = chain.is_banded(operands[0])
    cut, gy = _read(chain.tensor(node, 0, number, low, high)) if own else ([], operands[0])
    yield from cut
    params = {**band, "of": chain.rows_of(operands[0]), "at": low, "own": int(own)}
    yield from chain.made(node, number, f"max_pool2d_backward{ROWS}", params, (gy, operands[1]), b - a)


def _looked_up(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    plane = chain.plane_of(plain(node).results[0])
    params = {"c": plane.channels, "h": plane.rows, "w": plane.columns, "top": a, "rows": b - a}
    yield from chain.made(node, number, LOOK_UP + ROWS, params, plain(node).operands, b - a)


def _pointwise(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    names = []
    for place in range(len(operands)):
        cut, name = _read(chain.tensor(node, place, number, a, b))
        yield from cut
        names.append(name)
    plane = chain.plane_of(plain(node).results[0])
    size = plane.channels * (b - a) * plane.columns
    yield from chain.made(node, number, POINTWISE, pointwise_params(size, steps_in(p)), tuple(names), b - a)


def _normed(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    cut, x = _read(chain.tensor(node, 0, number, a, b))
    yield from cut
    size = (b - a) * chain.plane_of(plain(node).results[0]).columns
    yield from chain.made(node, number, plain(node).op, {**p, "size": size}, (x, *operands[1:]), b - a)


def _of_features(chain: _Chain, node: Node, number: int, a: int, b: int) -> Iterator[Node]:
    p, operands = _params(node)
    accumulates = plain(node).op != MATMUL
    plane = chain.plane_of(operands[1] if accumulates else plain(node).results[0])
    params = {"c": plane.channels, "of": plane.rows * plane.columns}
    params |= {"at": a * plane.columns, "size": (b - a) * plane.columns}
    if not accumulates:
        yield from chain.made(node, number, MATMUL + ROWS, {**params, "k": p["k"]}, operands, b - a)
        return
    cut, x = _read(chain.tensor(node, 1, number, a, b))
    yield from cut
    yield from chain.added_to(node, number, {**params, "m": p["m"]}, (operands[0], x))


_MAKERS: dict[str, Made] = {
    CONV: _convolved,
    CONV + RELU: _convolved,
    f"{CONV}_backward_weight": _of_weights,
    f"{CONV}_backward_input": _of_input,
    "max_pool2d": _pooled,
    f"max_pool2d{INFER}": _pooled,
    "avg_pool2d": _pooled,
    "max_pool2d_backward": _unpooled,
    "avg_pool2d_backward": _unpooled,
    LOOK_UP: _looked_up,
    POINTWISE: _pointwise,
    "batch_norm_eval": _normed,
    "batch_norm_eval_backward_input": _normed,
    MATMUL: _of_features,
    MATMUL + ACCUMULATE: _of_features,
}
