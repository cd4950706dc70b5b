# SPDX-License-Identifier: Apache-2.0
"""A lowered step whose largest values never exist as a whole.

A region is a set of neighbouring operators that go along one axis: rows of matrices, or channels of planes. What lies
between them is there in tiles only, each of which lives and is computed again by itself. Results are
gathered tile behind tile, or summed over the tiles in order, so that all bits are those of the whole. What reads
bytes as numbers does so for one channel at a time. An operator that has no way (`ways`) stays whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from poet_profiles.firmware.operators import (
    ACCUMULATE,
    LOOK_UP,
    MATMUL,
    OPERATORS,
    ROWS,
    SUM_SO_FAR,
    params_key,
    parse_params,
    taken_over,
)
from poet_profiles.firmware.steps import POINTWISE, parsed, pointwise_params
from poet_profiles.graph import Graph, Node, Operation, Value

from poet_planner.lowering.memory.in_place import with_taking_over
from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.tiles.nodes import Maker, op_of, plain
from poet_planner.lowering.tiles.ways import SUM_ROWS, SUMMED, Axis, Way, axes, tile_params, ways

NANO = 10**9
COPIED = "copied"
FOURS = 4  # kernels take so many rows, or filters, at a time


def with_tiles(graph: Graph, tiles: int) -> Graph:
    """The same step with its values in tiles, of which the largest has so many."""
    most = max((value.bytes for node in graph.nodes for value in node.values), default=0) // tiles
    plain = _with_losses_of_rows(graph, most)
    tiled = _tiled(plain, most)
    looked_up = _tiled(_with_own_look_ups(tiled, most), most)
    return graph if looked_up == plain else _with_copies(looked_up)


def _with_losses_of_rows(graph: Graph, most: int) -> Graph:
    """Losses of large matrices as what goes row by row: a number of each row is found, the whole's count divides."""
    nodes: list[Node] = []
    make = Maker(graph)
    for node in graph.nodes:
        op = node.operation
        p = parse_params(op.params) if op and op.op in ("nll_loss", "nll_loss_backward") else {}
        if op is None or not p or 4 * p["m"] * p["n"] <= most:
            nodes.append(node)
            continue
        found = {"m": p["m"], "v": p["n"], "d": 1, "size": 1, "ignores": 0, "ignored": 0}
        picked, zeros = added(node.id, "picked"), added(node.id, "zeros")
        if op.op == "nll_loss":
            own, none = make.node(node, picked, "gather", found, op.operands), make.zeros(node, zeros, 4 * p["m"])
            params = params_key(op.op, {"m": p["m"], "n": 1})
            last = replace(op, params=params, operands=(picked, zeros))
            nodes += [own, none, replace(node, inputs=(picked, zeros), operation=last)]
        else:
            steps = parsed(f"spread(r0,x0,1,1);neg(r0,r0);divc(y0,r0,{p['m']})")
            share = make.node(node, picked, POINTWISE, pointwise_params(p["m"], steps), op.operands[:1])
            last = Operation(
                "gather_backward", params_key("gather_backward", found), (picked, op.operands[1]), op.results
            )
            inputs = tuple(id for id in node.inputs if id != op.operands[0])
            nodes += [share, replace(node, inputs=(picked, *inputs), operation=last)]
    return replace(graph, nodes=tuple(nodes))


def _with_own_look_ups(graph: Graph, most: int) -> Graph:
    """Bytes that are read as numbers anew for each operator that wants them, where they are many."""
    made = {node.values[0].id: node for node in graph.nodes if op_of(node) == LOOK_UP and node.values[0].bytes > most}
    nodes: list[Node] = []
    for node in graph.nodes:
        op = node.operation
        for id in [id for id in node.inputs if id in made and op and id in op.operands]:
            look_up, own = made[id], added(node.id, "numbers")
            assert op is not None and look_up.operation is not None
            value = replace(look_up.values[0], id=own)
            nodes.append(
                replace(
                    look_up,
                    id=own,
                    values=(value,),
                    backward=node.backward,
                    operation=replace(look_up.operation, results=(own,)),
                )
            )
            op = replace(op, operands=tuple(own if one == id else one for one in op.operands))
            node = replace(node, operation=op, inputs=tuple(own if one == id else one for one in node.inputs))
        nodes.append(node)
    read = {id for node in nodes for id in node.inputs}
    return replace(
        graph, nodes=tuple(node for node in nodes if not made.keys() & _results(node) or read & _results(node))
    )


def _with_copies(graph: Graph) -> Graph:
    """The largest operators on copies that they may take over; what others read as well may be paged meanwhile."""
    while True:
        sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
        uses = Counter(id for node in graph.nodes for id in node.inputs)
        placed = with_taking_over(graph).nodes
        needs = {node.id: _needs(node, sizes) for node in placed}
        node = max(placed, key=lambda node: needs[node.id])
        op, own, is_copy = node.operation, added(node.id, COPIED), node.id.endswith(COPIED)
        places = (
            taken_over(op.op, op.params) if op and op.op in OPERATORS and not node.takes_over and not is_copy else ()
        )
        shared = [op.operands[place] for place in places if op and uses[op.operands[place]] > 1]
        shared = [id for id in shared if sizes[id] == node.values[0].bytes]
        if not shared or op is None:
            return graph
        steps = parsed("copy(y0,x0)")
        copy = Maker(graph).node(node, own, POINTWISE, pointwise_params(sizes[shared[0]] // 4, steps), (shared[0],))
        copy = replace(copy, recomputable=True)
        operands = tuple(own if id == shared[0] else id for id in op.operands)
        inputs = tuple(own if id == shared[0] else id for id in node.inputs)
        instead = [copy, replace(node, inputs=inputs, operation=replace(op, operands=operands))]
        graph = replace(
            graph, nodes=tuple(new for old in graph.nodes for new in (instead if old.id == node.id else [old]))
        )


def _needs(node: Node, sizes: Mapping[str, int]) -> int:
    read = sum(sizes[id] for id in node.inputs if id not in node.takes_over.values())
    return read + sum(value.bytes for value in node.values) + node.workspace_bytes


def _tiled(graph: Graph, most: int) -> Graph:
    """The same step with every value above a size in tiles that are no larger, where operators have ways."""
    own, net = {node.id for node in graph.nodes}, _Net(graph, most)
    large = [value for node in graph.nodes for value in node.values if value.bytes > most]
    for value in sorted(large, key=lambda value: -value.bytes):
        found = [net.region(value.id, axis, own) for axis in net.axes_of(value.id)] if value.id in net.makers else []
        best = max((one for one in found if one), key=lambda one: one.inner_bytes, default=None)
        if best is not None:
            net = _Net(replace(net.graph, nodes=tuple(_with_region(net, best))), most)
    return net.graph


def _with_region(net: _Net, region: _Region) -> Iterator[Node]:
    """The nodes with a region's loops in place of its members."""
    loops = region.loops(net)
    for place, node in enumerate(net.graph.nodes):
        for loop in loops:
            if loop.place == place:
                yield from loop.nodes()
        if node.id not in region.members:
            yield node


class _Region(NamedTuple):
    """Operators that go along one axis, each by a way of it, and what is between them."""

    members: Mapping[str, Way]
    inner: Mapping[str, int]  # values that are never whole, with their bytes
    tiles: tuple[tuple[int, int], ...]

    @property
    def inner_bytes(self) -> int:
        return sum(self.inner.values())

    def loops(self, net: _Net) -> tuple[_Loop, _Loop]:
        """Its tiles before the loss, and after it."""
        return _Loop(net, self, False), _Loop(net, self, True)


class _Net:
    """Who makes and who reads each value, and the regions around one."""

    def __init__(self, graph: Graph, most: int) -> None:
        self.graph, self._most, self.make = graph, most, Maker(graph)
        self.places = {node.id: place for place, node in enumerate(graph.nodes)}
        self.nodes = {node.id: node for node in graph.nodes}
        self.makers = {value.id: node for node in graph.nodes for value in node.values}
        self.sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
        self.readers: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for id in node.inputs:
                self.readers[id].append(node)

    def axes_of(self, id: str) -> list[Axis]:
        """Along which a value may be cut, by what makes and reads it."""
        found = [axis for node, places in self._touching(id) for place in places for axis in axes(plain(node), place)]
        return list(dict.fromkeys(found))

    def region(self, id: str, axis: Axis, own: set[str]) -> _Region | None:
        """What there is around a value that is cut along an axis; None if nothing is between."""
        cut, members, waiting = {id: axis}, dict[str, Way](), deque([id])
        while waiting:
            value = waiting.popleft()
            for node, places in self._touching(value):
                if node.id not in own or node.id in members or not places or not self._may_join(node):
                    continue
                way = next(iter(ways(plain(node), places[0], cut[value])), None)
                if way is None:
                    continue
                members[node.id] = way
                for other, one in zip(_ids(node), (*way.operands, *way.results), strict=True):
                    if one and one != SUMMED and self.sizes.get(other, 0) > self._most and other not in cut:
                        cut[other] = one
                        waiting.append(other)
        return self._trimmed(members)

    def _trimmed(self, members: dict[str, Way]) -> _Region | None:
        """Without those that are next to nothing that is large and never whole."""
        while True:
            inner = self._inner(members)
            large = {id for id, size in inner.items() if size > self._most}
            kept = {id: way for id, way in members.items() if not large.isdisjoint(_ids(self.nodes[id]))}
            kept = {id: way for id, way in kept.items() if self._goes_along(self.nodes[id], way, members)}
            if len(kept) == len(members):
                break
            members = kept
        if not members:
            return None
        extent, unit = next(iter(members.values())).extent, max(way.unit for way in members.values())
        count = max(1, extent * self._most // max(inner.values()))
        count = count - count % FOURS if count >= FOURS else count
        count = max(unit, count - count % unit)
        if count >= extent:
            return None
        tiles = tuple((at, min(at + count, extent)) for at in range(0, extent, count))
        region = _Region(members, inner, tiles)
        there, back = (loop.place for loop in region.loops(self))
        return region if there is not None and back is not None and there <= back else None

    def _goes_along(self, node: Node, way: Way, members: Mapping[str, Way]) -> bool:
        """Whether it reads all that is made in the same tiles by these."""
        for id, axis in zip(plain(node).operands, way.operands, strict=True):
            maker = self.makers.get(id)
            if maker is not None and maker.id in members and maker.backward == node.backward:
                made = members[maker.id].results[plain(maker).results.index(id)]
                if made != axis or made == SUMMED:
                    return False
        return True

    def _inner(self, members: Mapping[str, Way]) -> dict[str, int]:
        """What members alone make and read, all along the same axis."""
        found = {}
        for node_id, way in members.items():
            node = self.nodes[node_id]
            for id, axis in zip(plain(node).results, way.results, strict=True):
                if not self.sizes.get(id) or axis in (None, SUMMED):
                    continue
                readers = self.readers[id]
                if readers and all(_cuts(members.get(reader.id), reader, id) == {axis} for reader in readers):
                    found[id] = self.sizes[id]
        return found

    def _touching(self, id: str) -> Iterator[tuple[Node, list[int]]]:
        for node in (self.makers[id], *self.readers[id]):
            if op_of(node) in OPERATORS:
                yield node, [place for place, one in enumerate(_ids(node)) if one == id]

    def _may_join(self, node: Node) -> bool:
        """Whether all that it waits for are operands, and it changes nothing that lasts."""
        return node.recomputable and set(node.inputs) <= set(plain(node).operands)


class _Loop:
    """A region's tiles on one side of the loss."""

    def __init__(self, net: _Net, region: _Region, backward: bool) -> None:
        self._net, self._region, self._backward = net, region, backward
        self._members = [node for node in net.graph.nodes if node.id in region.members and node.backward == backward]
        self._so_far: dict[str, str] = {}

    @property
    def place(self) -> int | None:
        """Before which node it may stand; None: nowhere."""
        members = {node.id for node in self._members}
        read = {id for node in self._members for id in node.inputs} - self._region.inner.keys()
        own = {value.id for node in self._members for value in node.values}
        places = self._net.places
        if not members:
            return len(places) if self._backward else 0
        first = max((places[self._net.makers[id].id] for id in read - own), default=-1)
        readers = [places[one.id] for id in own for one in self._net.readers[id] if one.id not in members]
        last = max(places[node.id] for node in self._members)
        return min([last, *readers]) if first < min([last + 1, *readers]) else None

    def nodes(self) -> Iterator[Node]:
        """Those that stand for the members, tile behind tile."""
        for number, (at, end) in enumerate(self._region.tiles):
            made = {id: added(id, f"tile{number}") for id in self._region.inner}
            for node in self._members:
                yield from self._tile(node, number, at, end, made)

    def _tile(self, node: Node, number: int, at: int, end: int, made: dict[str, str]) -> Iterator[Node]:
        """An operator's tile: what is cut for it, itself, and where its results go."""
        operation, way, last = plain(node), self._region.members[node.id], number == len(self._region.tiles) - 1
        name = added(node.id, f"tile{number}")
        op, params, operands = operation.op, tile_params(operation, way, end - at), []
        for place, (id, axis) in enumerate(zip(operation.operands, way.operands, strict=True)):
            if axis is not None and id not in made:
                made[id] = added(name, f"operand{place}")
                yield self._copy(node, made[id], id, axis, at, end)
            operands.append(id if axis is None else made[id])
        has_bias = way.bias is None or number == way.bias % len(self._region.tiles)
        results = list(zip(operation.results, way.results, range(len(operation.results)), strict=True))
        if not has_bias:
            params["bias"] = 0
            (results if None in way.results else operands).pop()
        if SUMMED in way.results and number:
            op, params, operands = yield from self._adding(node, name, op, params, operands)
        if op == LOOK_UP:
            axis = way.results[0]
            assert axis is not None
            op, params = (
                f"{LOOK_UP}{ROWS}",
                {"c": axis.outer, "h": axis.extent, "w": axis.inner, "top": at, "rows": end - at},
            )
        ids, values, gathered = [], [], []
        for (id, axis, place), size in zip(results, OPERATORS[op].sizes(params).outputs, strict=True):
            home = node.values[place]
            if axis is None or (axis == SUMMED and last):
                ids.append(id)
                values.append(home)
                continue
            ids.append(added(id, f"tile{number}"))
            values.append(Value(ids[-1], size))
            made[id] = ids[-1]
            if axis == SUMMED:
                self._so_far[id] = ids[-1]
            elif axis is not None and id not in self._region.inner:
                gathered.append((place, axis))
        signals = node.values[len(operation.results) :] if last else ()
        yield self._net.make.node(node, name, op, params, tuple(operands), tuple(ids), (*values, *signals))
        for place, axis in gathered:
            yield from self._behind_the_others(node, place, axis, made[operation.results[place]], number, at, end)

    def _adding(
        self, node: Node, name: str, op: str, params: dict[str, int], operands: list[str]
    ) -> Generator[Node, None, tuple[str, dict[str, int], list[str]]]:
        """The operator that adds to what the tiles before have made."""
        so_far = self._so_far[plain(node).results[0]]
        if op == SUM_ROWS:
            ones = added(name, "ones")
            yield self._net.make.node(node, ones, "fill", {"size": params["m"], "value_nano": NANO}, ())
            operands = [ones, *operands]
            op, params = MATMUL, {"b": 1, "m": 1, "k": params["m"], "n": params["n"], "ta": 0, "tb": 0}
        return f"{op}{ACCUMULATE}", params, [*operands[:SUM_SO_FAR], so_far, *operands[SUM_SO_FAR:]]

    def _behind_the_others(
        self, node: Node, place: int, axis: Axis, tile: str, number: int, at: int, end: int
    ) -> Iterator[Node]:
        """What is gathered of a result, with a tile more behind the others: the first ends at the front."""
        id, new = plain(node).results[place], (end - at) * axis.inner
        size = 4 * axis.outer * axis.extent * axis.inner
        if number == 0:
            self._so_far[id] = added(node.id, f"begun{place}")
            yield self._net.make.zeros(node, self._so_far[id], size)
        params = {"rows": axis.outer, "kept": axis.extent * axis.inner - new, "count": new}
        name, last = added(node.id, f"gathered{place}.{number}"), end == axis.extent
        value = node.values[place] if last else Value(name, size)
        operands = tile, self._so_far[id]
        yield self._net.make.node(node, name, "shift", params, operands, (id if last else name,), (value,))
        self._so_far[id] = name

    def _copy(self, node: Node, name: str, id: str, axis: Axis, at: int, end: int) -> Node:
        outer, extent, inner = axis
        params = {"d0": 1, "d1": outer, "d2": end - at, "d3": inner}
        params |= {"s0": 1, "s1": extent * inner, "s2": inner, "s3": 1}
        params |= {"offset": at * inner, "size": outer * extent * inner}
        return self._net.make.node(node, name, "strided_copy", params, (id,))


def _ids(node: Node) -> tuple[str, ...]:
    """Operands, then results."""
    return (*node.operation.operands, *node.operation.results) if node.operation else ()


def _results(node: Node) -> set[str]:
    return set(node.operation.results) if node.operation else set()


def _cuts(way: Way | None, reader: Node, id: str) -> set[Axis | None]:
    """The axes along which a node reads a value; one of none if it is no member."""
    if way is None:
        return {None}
    return {axis for one, axis in zip(plain(reader).operands, way.operands, strict=True) if one == id}
