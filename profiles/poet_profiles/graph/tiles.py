# SPDX-License-Identifier: Apache-2.0
"""Whether tiles of rows or channels follow each other (docs/SPEC.md, section 1).

A node ``X..tile2`` says that it is the third of those that stand for X. What it reads, and where its results go, is
compared with the others; nothing here knows what an operator computes, or how tiles are made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import ACCUMULATE, LOOK_UP, ROWS, SUM_SO_FAR, parse_params
from poet_profiles.graph.model import Graph, Node, Operation

TILE = re.compile(r"(.+)\.\.tile(\d+)")
_NUMBERS = re.compile(r"(\d+)")
_SPREAD = re.compile(r"spread\((\w+,\w+),\d+,\d+\)")
_BIAS = re.compile(r"bias=\d")


class _Part(NamedTuple):
    """From where to where along an axis, of which all is 1."""

    low: Fraction
    high: Fraction

    @property
    def share(self) -> Fraction:
        return self.high - self.low


class _Made(NamedTuple):
    """A result of a tile; ``so_far`` with those of all tiles before it. Without a number: of all of them."""

    of: str
    number: int | None
    place: int
    so_far: bool = False


class _Tile(NamedTuple):
    """What is compared; of one that is in tiles itself there are no parameters."""

    op: str
    params: str | None
    reads: tuple[str | _Made, ...]
    results: int


def check_tiles(graph: Graph) -> None:
    """Whether each tile reads its own part, and nothing is made of some of them alone."""
    if has_tiles(graph):
        _Tiles(graph).check()


def has_tiles(graph: Graph) -> bool:
    """Whether some nodes stand for another one."""
    return any(TILE.fullmatch(node.id) for node in graph.nodes)


class _Tiles:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._counts: dict[str, int] = defaultdict(int)
        self._least: dict[str, int] = {}  # results that each of them has
        self._sums: set[str] = set()
        self._tiles: dict[str, dict[int, _Tile]] = defaultdict(dict)
        self._parts: dict[str, list[_Part]] = {}
        self._makers: dict[str, Operation] = {}
        self._made: dict[str, _Made] = {}  # what is not whole
        self._rows: dict[tuple[str, int], int] = {}  # of what is gathered
        self._shifts: list[tuple[Node, _Made, int, int]] = []

    def check(self) -> None:
        for node in self._graph.nodes:
            if node.operation is not None:
                self._count(node.id, node.operation)
        for node in self._graph.nodes:
            self._node = node
            if node.operation is not None:
                self._follow(node.operation)
                self._makers |= dict.fromkeys(node.operation.results, node.operation)
        for of, count in self._counts.items():
            self._must(len(self._tiles[of]) == count, f"{of} has tiles that are not there")
        for node, made, all_there, count in self._shifts:
            self._node, part = node, self._parts[made.of][made.number or 0]
            self._must(count == all_there * part.share, "it gathers another part than its tile's")

    def _count(self, id: str, operation: Operation) -> None:
        op, is_first = operation.op, True
        while (match := TILE.fullmatch(id)) is not None:
            id, number = match[1], int(match[2])
            self._counts[id] = max(self._counts[id], number + 1)
            if op.endswith(ACCUMULATE):
                self._sums.add(id)
            if is_first:
                self._least[id] = min(self._least.get(id, len(operation.results)), len(operation.results))
            op, is_first = "", is_first and number == 0

    def _follow(self, operation: Operation) -> None:
        match = TILE.fullmatch(self._node.id)
        if match is not None:
            self._tile(match[1], int(match[2]), operation)
        elif operation.op == "shift":
            self._shift(operation)
        elif _is_copy(operation):
            if operation.operands[0] in self._made:
                self._made[operation.results[0]] = self._made[operation.operands[0]]
        elif operation.op == "strided_copy":
            if operation.operands[0] in self._made:  # a part of a part, which is for tiles of the tile
                self._made[operation.results[0]] = self._made[operation.operands[0]]._replace(so_far=True)
        else:
            self._refuse_parts(*operation.operands)

    def _must(self, sound: bool, what: str) -> None:
        if not sound:
            raise FaultError(f"node {self._node.id}: {what}; plan the model again")

    def _refuse_parts(self, *ids: str) -> None:
        for id in ids:
            self._must(id not in self._made, f"{id} is not whole")

    def _put(self, id: str, made: _Made) -> None:
        """A result; with those of all tiles before the last one it is whole, or a tile of what is in tiles itself."""
        all_there = made.so_far and made.number == self._counts[made.of] - 1
        if not all_there and made.place < self._least[made.of]:
            self._made[id] = made
        elif TILE.fullmatch(made.of):
            self._put(id, self._whole(made))

    def _whole(self, made: _Made) -> _Made:
        """What all tiles make: a tile, where what they stand for is one."""
        match = TILE.fullmatch(made.of)
        if match is None:
            return _Made(made.of, None, made.place)
        return _Made(match[1], int(match[2]), made.place, match[1] in self._sums and made.place == 0)

    def _shift(self, operation: Operation) -> None:
        """What gathers tiles: each behind those before it."""
        new, before = operation.operands
        made, p = self._made.get(new), parse_params(operation.params)
        if made is None or made.number is None:
            self._refuse_parts(before)
            return
        if made.number:
            follows = self._made.get(before) == made._replace(number=made.number - 1, so_far=True)
        else:
            follows = before not in self._made
        rows = self._rows.setdefault((made.of, made.place), p["rows"])
        self._must(follows and not made.so_far and rows == p["rows"], f"{new} is not what follows {before}")
        self._shifts.append((self._node, made, p["kept"] + p["count"], p["count"]))
        self._put(operation.results[0], made._replace(so_far=True))

    def _tile(self, of: str, number: int, operation: Operation) -> None:
        reads = [*operation.operands]
        if of in self._sums and number:
            adds = operation.op.endswith(ACCUMULATE) and len(reads) > SUM_SO_FAR
            adds = adds and self._made.get(reads.pop(SUM_SO_FAR)) == _Made(of, number - 1, 0, True)
            self._must(adds, "it does not add to the tiles before it")
            ones = self._makers.get(reads[0])
            if ones is not None and ones.op == "fill":
                self._must(ones.params.endswith("value_nano=1000000000"), f"{reads[0]} are no ones")
                reads.pop(0)
        for place, id in enumerate(operation.results):
            self._put(id, _Made(of, number, place, of in self._sums and place == 0))
        same = tuple(self._same(id) for id in reads)
        self._take(of, number, _Tile(operation.op, operation.params, same, len(operation.results)))

    def _take(self, of: str, number: int, tile: _Tile) -> None:
        """With the last tile all of them are compared, and one that is in tiles takes part in those beside it."""
        tiles = self._tiles[of]
        self._must(number not in tiles, "it is there twice")
        tiles[number] = tile
        if len(tiles) == self._counts[of]:
            ordered = [tiles[number] for number in range(len(tiles))]
            reads = self._compared(of, ordered)
            if (match := TILE.fullmatch(of)) is not None:
                self._take(match[1], int(match[2]), _Tile(ordered[0].op, None, reads, ordered[0].results))

    def _same(self, id: str) -> str:
        """What a copy is one of."""
        maker = self._makers.get(id)
        return self._same(maker.operands[0]) if maker is not None and _is_copy(maker) else id

    def _compared(self, of: str, tiles: Sequence[_Tile]) -> tuple[str | _Made, ...]:
        """What they read, as the one for which they stand would."""
        first, last = tiles[0], tiles[-1]
        for tile in tiles[1:]:
            alike = tile.op in (first.op, first.op + ACCUMULATE) or (first.op == "sum_rows" and of in self._sums)
            self._must(alike and tile.op == last.op, "its tiles are of several kinds")
            same = (tile.results, len(tile.reads)) == (last.results, len(last.reads))
            fewer = len(first.reads) - len(tile.reads) + first.results - tile.results
            self._must(same and fewer in (0, 1), "its tiles have not as many tensors")
        found: list[list[_Part]] = []
        places = ([tile.reads[place] for tile in tiles if place < len(tile.reads)] for place in range(len(first.reads)))
        reads = tuple(self._read(of, ids, found) for ids in places)
        if first.op == LOOK_UP + ROWS:
            found.append([_looked_up(tile.params or "") for tile in tiles])
        elif not found and first.op == "pointwise":  # of one number
            found.append(_of_sizes([parse_params(tile.params or "size=0")["size"] for tile in tiles]))
        self._must(bool(found) and all(parts == found[0] for parts in found), "its tiles read other parts")
        parts = self._parts[of] = found[0]
        ends = [0, *(part.high for part in parts)]
        follow = all(part.low == end for part, end in zip(parts, ends, strict=False))
        self._must(follow and ends[-1] == 1, "its tiles do not follow each other")
        of_one = next((one for one in zip(tiles, parts, strict=True) if one[0].op == last.op and one[0].params), None)
        for tile, part in zip(tiles, parts, strict=True):
            if of_one and tile.op.removesuffix(ACCUMULATE) == last.op.removesuffix(ACCUMULATE) != LOOK_UP + ROWS:
                self._must(_alike((tile, part), of_one), "its tiles have other parameters")
        return reads

    def _read(self, of: str, ids: Sequence[str | _Made], found: list[list[_Part]]) -> str | _Made:
        """What they read in one place: the same, parts that are cut for them, or the tiles beside them."""
        if len({*ids}) == 1:
            self._must_be_there(of, ids[0])
            return ids[0]
        cuts = [self._cut(id) for id in ids]
        if None not in cuts:
            axes, parts = zip(*cast(list[tuple[tuple[str, int, int], _Part]], cuts), strict=True)
            self._must(len({*axes}) == 1, "its tiles are cut from several tensors")
            self._must_be_there(of, axes[0][0])
            found.append([*parts])
            return cast(str, axes[0][0])
        tiles = [id if isinstance(id, _Made) else self._made.get(id) for id in ids]
        first = tiles[0] or _Made("", 0, 0)
        beside = [first._replace(number=number) for number in range(self._counts[first.of])]
        self._must(tiles == beside and not first.so_far and first.of in self._parts, "it reads no tiles beside it")
        found.append(self._parts[first.of])
        return self._whole(first)

    def _must_be_there(self, of: str, id: str | _Made) -> None:
        """Parts of what is not whole are for tiles of a tile."""
        made = id if isinstance(id, _Made) else self._made.get(id)
        whole = made is None or made.number is None or (TILE.fullmatch(of) is not None and not made.so_far)
        self._must(whole, f"{id} is not whole")

    def _cut(self, id: str | _Made) -> tuple[tuple[str, int, int], _Part] | None:
        """From what, of how many rows and of how many numbers in each place, and which places; None: it is no cut."""
        maker = self._makers.get(id) if isinstance(id, str) else None
        if maker is None or maker.op != "strided_copy":
            return None
        p = parse_params(maker.params)
        inner = p["d3"]
        if p["s1"] <= 0:
            return None
        part = _Part(Fraction(p["offset"], p["s1"]), Fraction(p["offset"] + p["d2"] * inner, p["s1"]))
        plain = (p["d0"], p["s0"], p["s2"], p["s3"]) == (1, 1, inner, 1) and p["offset"] % inner == p["s1"] % inner == 0
        plain = plain and p["size"] == p["d1"] * p["s1"] and part.low >= 0 and part.high <= 1
        return ((self._same(maker.operands[0]), p["d1"], inner), part) if plain else None


def _is_copy(operation: Operation) -> bool:
    return operation.op == "pointwise" and operation.params.endswith("steps=copy(y0,x0)")


def _looked_up(params: str) -> _Part:
    p = parse_params(params)
    return _Part(Fraction(p["top"], p["h"]), Fraction(p["top"] + p["rows"], p["h"]))


def _of_sizes(sizes: Sequence[int]) -> list[_Part]:
    ends = [*accumulate((0, *sizes))]
    return [_Part(Fraction(low, ends[-1] or 1), Fraction(high, ends[-1] or 1)) for low, high in pairwise(ends)]


def _alike(one: tuple[_Tile, _Part], other: tuple[_Tile, _Part]) -> bool:
    """Whether parameters are the same, or such a share of another's as a tile has."""
    if one[0].params is None or other[0].params is None:
        return True
    params = [_BIAS.sub("bias", tile.params) for tile in (one[0], other[0]) if tile.params is not None]
    if len({text.count("spread(") for text in params}) > 1:  # a tile may be as large as what is spread
        params = [_SPREAD.sub(r"copy(\1)", text) for text in params]
    texts = [*map(_NUMBERS.split, params)]
    pairs = [*zip(*texts, strict=False)]
    same = (
        a == b or (a.isdigit() and b.isdigit() and int(a) * other[1].share == int(b) * one[1].share) for a, b in pairs
    )
    return len(texts[0]) == len(texts[1]) and all(same)
