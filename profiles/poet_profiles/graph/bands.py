# SPDX-License-Identifier: Apache-2.0
"""Whether bands of rows read what is there, and make a whole (docs/SPEC.md, section 1).

It follows what each value has: which stretch of each plane of which tensor. It knows nothing of how bands are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import LOOK_UP, OF_BANDS, ROWS, parse_params, positions
from poet_profiles.firmware.steps import SPREAD, SUM, steps_in
from poet_profiles.graph.model import Graph

Params = Mapping[str, int]
# Of a window: what bands of one tensor have in common.
_ALIKE = ("c", "w", "k", "r", "s", "sh", "sw", "pw", "bias")
_POOLS = ("avg_pool2d", "max_pool2d_infer", "avg_pool2d_backward")
_NORMS = ("batch_norm_eval", "batch_norm_eval_backward_input")


class Stretch(NamedTuple):
    """Elements ``low`` to ``high`` of each plane, where one of ``extent`` begins at ``origin``.

    Of a sum ``low`` to ``high`` are what has been added. ``loose`` is a cut of a whole tensor, which anything may read.
    """

    tensor: Any
    low: int
    high: int
    origin: int
    extent: int
    loose: bool = False

    @property
    def is_whole(self) -> bool:
        return (self.low, self.high) == (0, self.extent) and self.origin == 0


def check_bands(graph: Graph) -> None:
    """Whether bands follow each other, fill what they fill, and read nothing that is not there."""
    if any(node.operation and node.operation.op in OF_BANDS - {LOOK_UP + ROWS} for node in graph.nodes):
        seen = _Bands(graph)
        with suppress(FaultError):
            seen.follow()
        _Bands(graph, seen).check()


class _Bands:
    """``seen`` has followed them once, and knows where tensors end: what is cut from a whole one is loose."""

    def __init__(self, graph: Graph, seen: _Bands | None = None) -> None:
        self._graph = graph
        self._numbers: dict[Any, int] = seen._numbers if seen else {}  # of tensors, by what they are made of
        self._known_ends = {tensor: seen._end(tensor) for tensor in seen._ends} if seen else {}
        self._has: dict[str, Stretch] = {}
        self._zeros: set[str] = set()
        self._begins: dict[int, int] = {}  # where a tensor's first window begins
        self._ends: dict[int, int] = {}
        self._goes_with: dict[int, int] = {}  # a sum, or what is made element by element: all of it, when the other is
        self._adders: dict[str, set[str]] = {}  # of a sum in RAM: what the last band yields that adds to it
        self._later: list[Callable[[], None]] = []

    def check(self) -> None:
        self.follow()
        for ask in self._later:
            ask()

    def follow(self) -> None:
        for node in self._graph.nodes:
            self._node, operation = node, node.operation
            if operation is None:
                continue
            p = parse_params(operation.params)
            if operation.op == "fill" and p["value_nano"] == 0:
                self._zeros.update(operation.results)
                continue
            follow = _FOLLOWED.get(operation.op)
            if follow is None or follow(self, p, *operation.operands) is False:
                for id in operation.operands:
                    self._refuse_parts(id)
                for id in operation.results:
                    self._has.pop(id, None)
        for resident in self._graph.residents:
            self._refuse_parts(resident.id)

    def _refuse(self, what: str) -> NoReturn:
        raise FaultError(f"node {self._node.id}: {what}; plan the model again")

    def _refuse_parts(self, id: str) -> None:
        has = self._has.get(id)
        if has is not None and not has.loose:
            parts = f"{id} has but elements {has.low} to {has.high} of each plane"
            self._must(has.is_whole, parts)
            self._in_the_end(lambda: has.high == self._end(has.tensor), parts)

    def _in_the_end(self, sound: Callable[[], bool], what: str) -> None:
        """Something that is known once all bands are."""
        node = self._node

        def ask() -> None:
            self._node = node
            self._must(sound(), what)

        self._later.append(ask)

    def _end(self, tensor: int) -> int:
        return self._ends[self._goes_with.get(tensor, tensor)]

    def _tensor(self, *made_of: Any) -> int:
        return self._numbers.setdefault(made_of, len(self._numbers))

    def _read(self, id: str, extent: int) -> Stretch:
        """What an operand has, whose planes are of so many elements."""
        has = self._has.get(id)
        if has is None or (has.extent != extent and has.is_whole):  # in other planes
            self._refuse_parts(id)
            has = Stretch(self._tensor(id), 0, extent, 0, extent)
        self._must(has.extent == extent, f"planes of {id} have {has.extent} elements, not {extent}")
        self._ends[has.tensor] = max(has.high, self._ends.get(has.tensor, 0))
        return has

    def _put(self, place: int, tensor: int, low: int, high: int, **where: Any) -> None:
        """A result: by default no more than the stretch."""
        assert self._node.operation is not None
        here = {"origin": low, "extent": high - low, **where}
        self._has[self._node.operation.results[place]] = Stretch(tensor, low, high, **here)
        self._ends[tensor] = max(high, self._ends.get(tensor, 0))

    def _must(self, sound: bool, what: str) -> None:
        if not sound:
            self._refuse(what)

    def _goes_on(self, before: str, tensor: int, low: int) -> None:
        """What comes before a band: the one above it, or zeros before the first."""
        if before in self._zeros:
            self._must(low == 0, f"it is no first band, but goes on from zeros, {before}")
            return
        has = self._has.get(before)
        self._must(has is not None and (has.tensor, has.high) == (tensor, low), f"{before} is not the band before it")

    def _windows(self, x: Stretch, w: int, p: Params, top: int, rows: int) -> None:
        """Windows over rows of x, the first of which begins at ``top`` of the whole."""
        end = top + (rows - 1) * p["sh"] + p["r"]
        self._must(max(top, 0) * w >= x.low, "its first windows begin above the rows that are there")
        there = "its last windows end below the rows that are there"
        self._in_the_end(lambda: min(end * w, self._end(x.tensor)) <= x.high, there)

    def _all_windows(self, y: int, columns: int, x: int, w: int, p: Params, top: int) -> None:
        """As many rows of y as there are of a plane x that is padded alike on both sides, or fewer."""

        def sound() -> bool:
            rows = (self._end(x) // w - 2 * top - p["r"]) // p["sh"] + 1
            return self._end(y) == rows * columns or ("filters" in p and self._end(y) < rows * columns)

        self._in_the_end(sound, "there are not as many rows as windows")

    def convolved(self, p: Params, x: str, *weights: str) -> None:
        has, columns = self._read(x, p["h"] * p["w"]), _columns(p)
        begin = p["top"] + has.origin // p["w"]
        self._windows(has, p["w"], p, begin, p["rows"])
        made_of = ("conv2d", *(p[name] for name in _ALIKE), has.tensor, *weights)
        if p["filters"] < p["k"]:  # whole planes, one behind the other
            tensor, size = self._tensor(*made_of, begin, p["rows"], p["of"]), p["rows"] * columns
            self._all_windows(self._tensor(tensor, "rows"), columns, has.tensor, p["w"], p, begin)
            self._ends[self._tensor(tensor, "rows")] = size
            self._put(0, tensor, p["first"] * size, (p["first"] + p["filters"]) * size)
            return
        tensor = self._tensor(*made_of)
        first = self._begins.setdefault(tensor, begin)
        row = (begin - first) // p["sh"]
        self._must((begin - first) % p["sh"] == 0, "its windows do not go on from those of the bands before")
        self._all_windows(tensor, columns, has.tensor, p["w"], p, first)
        self._must(p["of"] == p["rows"], '"of" is not "rows"')
        self._put(0, tensor, row * columns, (row + p["rows"]) * columns)

    def of_weights(self, p: Params, gy: str, x: str, *sums: str) -> None:
        columns = _columns(p)
        g, has = self._read(gy, p["of"] * columns), self._read(x, p["h"] * p["w"])
        low, rows = g.origin // columns, p["rows"]
        self._must(g.low <= low * columns and (low + rows) * columns <= g.high, f"{gy} has not all rows that it reads")
        top = p["top"] + has.origin // p["w"]
        self._windows(has, p["w"], p, top, rows)
        padding = low * p["sh"] - top
        tensor = self._tensor("gw", *(p[name] for name in _ALIKE), g.tensor, has.tensor, padding)
        self._all_windows(g.tensor, columns, has.tensor, p["w"], p, -padding)
        for place, before in enumerate(sums):
            self._goes_on(before, tensor, low * columns)
            self._goes_with[tensor] = self._goes_with.get(g.tensor, g.tensor)
            self._put(place, tensor, 0, (low + rows) * columns)

    def of_input(self, p: Params, gy: str, w: str) -> None:
        columns = _columns(p)
        g = self._read(gy, p["rows"] * columns)
        tensor = self._tensor("gx", *(p[name] for name in _ALIKE), g.tensor, w)
        at = g.origin // columns * p["sh"] - p["top"]
        padding = self._begins.setdefault(tensor, at)
        low, high = at - padding, at - padding + p["h"]
        first, last = -((p["r"] - 1 - at) // p["sh"]), (at + p["h"] - 1) // p["sh"] + 1
        self._must(low >= 0 and max(first, 0) * columns >= g.low, f"{gy} has not all rows that give to it")
        all_there = f"{gy} has not all rows that give to it"
        self._in_the_end(lambda: min(last * columns, self._end(g.tensor)) <= g.high, all_there)
        self._all_windows(g.tensor, columns, tensor, p["w"], p, -padding)
        self._put(0, tensor, low * p["w"], high * p["w"])

    def pooled(self, p: Params, x: str, *before: str) -> None:
        (rows, columns), w = positions({**p, "ph": 0, "pw": 0}), p["w"]
        has, at = self._read(x, p["h"] * w), p["at"]
        self._must(has.origin == at * p["sh"] * w and has.low <= has.origin, f"{x} has no rows of its windows")
        self._must(has.high == has.origin + has.extent, f"{x} has not all rows of its windows")
        tensor = self._tensor("pool", *(p[name] for name in ("c", "w", "r", "s", "sh", "sw", "of")), has.tensor)
        for place, id in enumerate(before):
            made = self._tensor(tensor, place)
            self._goes_on(id, made, at * columns)
            self._put(place, made, 0, (at + rows) * columns, origin=0, extent=p["of"] * columns)

    def unpooled(self, p: Params, gy: str, places: str) -> None:
        rows, columns = positions({**p, "ph": 0, "pw": 0})
        extent, low, high = p["of"] * columns, p["at"] * columns, (p["at"] + rows) * columns
        g = self._read(gy, rows * columns if p["own"] else extent)
        place = self._read(places, extent)
        origin = low if p["own"] else 0
        self._must(g.origin == origin and g.low <= low and high <= g.high, f"{gy} has no such rows")
        self._must(place.is_whole, f"{places} are not there yet")
        self._must(rows * p["r"] == p["h"] and p["r"] == p["sh"], '"h" is not that of its windows')
        alike = (p[name] for name in ("c", "w", "r", "s", "sh", "sw", "of"))
        begin = p["at"] * p["sh"] * p["w"]
        self._put(0, self._tensor("unpool", *alike, g.tensor, place.tensor), begin, begin + p["h"] * p["w"])

    def looked_up(self, p: Params, x: str, table: str) -> None:
        w, has = p["w"], self._read(x, p["h"] * p["w"])
        tensor = self._tensor("look_up", w, has.tensor, table)
        self._put(0, tensor, p["top"] * w, (p["top"] + p["rows"]) * w)
        self._ends[tensor] = has.extent

    def of_features(self, p: Params, a: str, w: str) -> None:
        self._put(0, self._tensor("matmul", a, w, p["of"]), p["at"], p["at"] + p["size"])

    def added(self, p: Params, a: str, x: str, total: str) -> None:
        has, end = self._read(x, p["size"]), p["at"] + p["size"]
        self._must((has.low, has.high) == (p["at"], end), f"{x} has not the columns that it adds to")
        tensor = self._tensor("sums", a, has.tensor, total, p["of"])
        if p["at"] or total in self._has:
            self._goes_on(total, tensor, p["at"])
            waits = not self._adders.get(total, {""}).isdisjoint((*self._node.inputs, ""))
            self._must(waits, f"no edge says that it adds to {total} after the band before it")
        self._adders[total] = {value.id for value in self._node.values}
        self._put(0, tensor, 0, end, origin=0, extent=p["of"])

    def summed(self, p: Params, x: str, w: str, before: str, *bias: str) -> None:
        has, end = self._read(x, p["k"]), p["at"] + p["k"]
        self._must((has.low, has.high) == (p["at"], end), f"{x} has not the features that it sums up")
        self._must(not bias or end == p["of"], "its bias comes before all sums")
        tensor = self._tensor("linear", w, has.tensor)
        self._goes_on(before, tensor, p["at"])
        self._put(0, tensor, 0, end, origin=0, extent=p["of"])

    def shifted(self, p: Params, new: str, before: str) -> bool | None:
        if before not in self._zeros and before not in self._has:
            return False
        has, extent = self._read(new, p["count"]), p["kept"] + p["count"]
        self._must(has.high - has.low == has.extent, f"{new} has not all of its rows")
        self._goes_on(before, has.tensor, has.low)
        assert self._node.operation is not None
        low = max(0, has.high - extent)
        if before in self._has:
            low = max(low, self._has[before].low)
        self._put(0, has.tensor, low, has.high, origin=has.high - extent, extent=extent)
        return None

    def cut(self, p: Params, x: str) -> bool | None:
        has, planes, low = self._has.get(x), p["d2"], p["offset"]
        if planes == 1 and (low, p["d3"]) == (0, p["size"]) and p["s3"] in (0, 1) and has is not None:
            assert self._node.operation is not None
            self._has[self._node.operation.results[0]] = has
            return None
        plain = (p["d0"], p["d1"], p["s3"]) == (1, 1, 1) and planes * p["s2"] == p["size"] and low >= 0
        if not plain or low + p["d3"] > p["s2"]:
            return False
        found = self._read(x, p["s2"])
        low, high = low + found.origin, low + found.origin + p["d3"]
        self._must(found.low <= low and high <= found.high, f"{x} has not all that is cut from it")
        whole = found.is_whole and found.high == self._known_ends.get(found.tensor)
        self._put(0, found.tensor, low, high, loose=has is None or found.loose or whole)
        return None

    def alike(self, p: Params, *operands: str) -> bool | None:
        """Element by element; of a norm the others are whole."""
        assert self._node.operation is not None
        op, params = self._node.operation.op, self._node.operation.params
        first = operands[:1] if op in _NORMS else operands
        bands = [self._has[id] for id in first if id in self._has]
        steps = {step.name for step in steps_in(p)} if op not in _NORMS else set()
        if not bands or steps & {SPREAD, SUM}:
            return False
        loose = all(has.loose for has in bands)
        found = [self._read(id, bands[0].extent) for id in first]
        same = {has[1:5] for has in found}
        if len(same) > 1 and all(has.loose or has.is_whole for has in found):
            return False
        self._must(len(same) == 1, "its operands are other rows")
        low, high, origin, extent = same.pop()
        alike = params.partition(" ")[2] if op not in _NORMS else p["c"]
        made_of = (op, alike, *(has.tensor for has in found), *operands[len(first) :])
        for place in range(len(self._node.operation.results)):
            tensor = self._tensor(*made_of, place)
            self._goes_with[tensor] = self._goes_with.get(found[0].tensor, found[0].tensor)
            self._put(place, tensor, low, high, origin=origin, extent=extent, loose=loose)
        return None

    def averaged(self, p: Params, x: str) -> bool | None:
        has = self._has.get(x)
        if has is None:
            return False
        assert self._node.operation is not None
        back, (rows, columns) = "backward" in self._node.operation.op, positions(p)
        here, there = (columns, p["w"]) if back else (p["w"], columns)
        row, step, down = has.low // here, p["sh"] if back else 1, 1 if back else p["sh"]
        suits = has.extent == (rows if back else p["h"]) * here and (row % down, p["ph"], p["n"]) == (0, 0, 1)
        if not suits and (has.loose or has.is_whole):
            return False
        full = (has.low, has.high) == (has.origin, has.origin + has.extent)
        self._must(full and suits, f"{x} has not the rows of its windows")
        alike = (p[name] for name in ("c", "w", "r", "s", "sh", "sw", "pw"))
        low, made = row * step // down, p["h"] if back else rows
        tensor = self._tensor(self._node.operation.op, *alike, has.tensor)
        self._put(0, tensor, low * there, (low + made) * there, loose=has.loose)
        return None


def _columns(p: Params) -> int:
    return positions({**p, "ph": 0})[1]


_FOLLOWED: dict[str, Callable[..., bool | None]] = {
    "conv2d_rows": _Bands.convolved,
    "conv2d_backward_weight_rows": _Bands.of_weights,
    "conv2d_backward_input_rows": _Bands.of_input,
    "max_pool2d_rows": _Bands.pooled,
    "max_pool2d_backward_rows": _Bands.unpooled,
    "look_up_rows": _Bands.looked_up,
    "matmul_rows": _Bands.of_features,
    "matmul_accumulate_rows": _Bands.added,
    "linear_rows": _Bands.summed,
    "shift": _Bands.shifted,
    "strided_copy": _Bands.cut,
    "pointwise": _Bands.alike,
    **dict.fromkeys(_NORMS, _Bands.alike),
    **dict.fromkeys(_POOLS, _Bands.averaged),
}
