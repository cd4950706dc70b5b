# SPDX-License-Identifier: Apache-2.0
"""How often the firmware's loops run in one call of a convolution, a matrix product or a pooling.

A small product takes much longer than its multiply-accumulates say: a tile of 4 x 4 results is computed whole where
there are fewer, and each product, each tile and each row of taps begins anew. Of which products a call consists, and
which kernel computes each, the firmware says (`poet_profiles.firmware.compiled_operators`). What is counted of them is
what their loops repeat; what each costs is fitted on the profile's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

from poet_profiles.firmware.compiled_operators import Recorded, blocks
from poet_profiles.firmware.operators import (
    ACCUMULATE,
    MATMUL,
    OPERATORS,
    S8,
    Params,
    is_convolution,
    is_winograd,
    output_extent,
    positions,
    products_of,
)

WINOGRAD, DEPTHWISE = "Winograd", "depthwise"
AT_ONCE = 8  # columns, and taps, that the kernel of rows takes with one row
PAIR = 2  # rows or columns
# Loops, each in the one before it.
TILES = ("tiles", "tap rows", "taps")
PAIRS = ("pairs", "pair tap rows", "pair taps")
ROW_TILES = ("row tiles", "row tap rows", "row taps")
DOTS = ("row dots", "row dot rows", "row dot taps")

Counts = Counter[str]


@dataclass(frozen=True)
class Loops:
    """By what ``way`` a call is computed, and how often each of its loops runs; those by ``products`` are similar."""

    way: str
    counts: Counts
    products: bool = False


def loops(op: str, params: Params, fpu: bool, whole: Params | None = None) -> Loops | None:
    """None of an operator whose loops are not counted. Of a part of a ``whole``, that decides about the algorithm."""
    base = op.removesuffix(ACCUMULATE)
    if op.endswith(S8) or not ("r" in params or base in ("linear", "matmul")):
        return None
    if "r" in params and not is_convolution(params):
        return _windows(params)
    if op == MATMUL + ACCUMULATE and params["k"] == 1:
        counts = Counter(outputs=_results(params), rows=params["b"] * params["m"])
        return Loops("single products", counts, products=True)
    if whole is not None and is_winograd(whole):
        part = copy(products_of(base, whole, fpu)[0])
        setattr(part, "channels" if "backward_input" in base else "rows", params["k"])
        return Loops(WINOGRAD, _winograd(part))
    recorded = products_of(base, params, fpu)
    if is_winograd(params):
        return Loops(WINOGRAD, _winograd(recorded[0]))
    fills = [one for one in recorded if one.door == "fill"]
    counts = _beside(op, params, fpu, fills) if is_convolution(params) else _beside_a_product(params)
    ways = set()
    for one in recorded:
        if one.door != "fill":
            way, counted = _COUNTED[one.door](one, fpu)
            ways.add(way)
            counts += Counter({name: one.times * count for name, count in counted.items()})
    if DEPTHWISE in ways:
        return Loops(f"{DEPTHWISE}, stride {params['sh']}", counts)
    if not ways:
        counts += Counter({"row dots": _results(params), "row dot taps": _results(params) * params["k"]})
    return Loops(" and ".join(sorted(ways)) or "single sums", counts, products=True)


def _results(p: Params) -> int:
    """Of a matrix product."""
    return p.get("b", 1) * p["m"] * p["n"]


def _beside_a_product(p: Params) -> Counts:
    """What begins results, and what adds a bias to them."""
    return Counter(outputs=_results(p), bias=p.get("bias", 0) * _results(p))


def _nested(names: tuple[str, ...], *times: int) -> Counts:
    """How often loops run that are in one another, each so many times in the one before it."""
    return Counter(dict(zip(names, accumulate(times, mul), strict=True)))


def _windows(p: Params) -> Loops:
    """A pooling's."""
    planes, (rows, columns) = p["n"] * p["c"], positions(p)
    counts = _nested(("products", "strips", "outputs", "tap rows", "taps"), planes, rows, columns, p["r"], p["s"])
    counts["filled"] = planes * p["h"] * p["w"]
    plain = (p["r"], p["s"], p["ph"], p["pw"]) == (2, 2, 0, 0)
    return Loops("windows of 2x2" if plain else "windows", counts)


def _winograd(job: Recorded) -> Counts:
    """Tiles of 2x2 results, some at a time: by fours of tiles, of filters and, in a weight gradient, of channels."""
    size, channels = blocks(), job.channels
    tiles = job.n * -(-job.height // 2) * -(-job.width // 2)
    batches, parts = -(-tiles // size.winograd_tiles), -(-channels // size.winograd_part)
    filters = -(-job.rows // size.tile)
    if job.door == "winograd_gradient":
        fours = -(-channels // size.tile) * filters
        counts = {"tiles": batches * fours, "taps": tiles * fours, "outputs": batches * fours * size.tile}
        return Counter({"filled": tiles * channels, "strips": tiles * parts * filters, **counts})
    groups, whole = -(-tiles // size.tile), _whole_groups(tiles, job.height, job.width)
    return Counter(
        {
            "filled": groups * size.tile * channels,
            "strips": batches * channels * filters,
            "taps": groups * channels * filters,
            "tiles": groups * parts * filters,
            "outputs": whole * parts * job.rows,
            "parts": (groups - whole) * parts * job.rows,
        }
    )


def _whole_groups(tiles: int, height: int, width: int) -> int:
    """Number of groups of four tiles that are two adjacent pairs entirely inside the plane."""
    across, down = -(-width // 2), -(-height // 2)

    def is_whole(first: int) -> bool:
        row, column = first // across % down, first % across
        return 2 * row + 2 <= height and 2 * column + 4 <= width

    return sum(is_whole(first) and is_whole(first + 2) for first in range(0, tiles - 3, 4))


def _beside(op: str, p: Params, fpu: bool, fills: Iterable[Recorded]) -> Counts:
    """What is beside a convolution's products: results begun or cleared, the bias's gradient, rows laid out.

    Without a floating-point unit, also taps of all results without those on padding: arithmetic is quicker on zeros.
    """
    counts: Counts = Counter(groups=p["n"] * p["g"])
    if "backward_input" not in op or p["sh"] > p["r"] or p["sw"] > p["s"] or op.endswith(ACCUMULATE):
        counts["outputs"] = OPERATORS[op].sizes(p).outputs[0] // 4
    if op == "conv2d_backward_weight":
        counts["bias"] = p["bias"] * p["n"] * p["k"] * prod(positions(p))
    for fill in fills:
        counts += _nested(("fills", "filled rows", "filled"), fill.times * fill.channels, fill.rows, fill.columns)
    if not fpu:
        counts["met taps"] = p["n"] * p["k"] * (p["c"] // p["g"]) * _met(p, "h", "r") * _met(p, "w", "s")
    return counts


def _met(p: Params, extent: str, kernel: str) -> int:
    """Taps along an axis that are not on padding."""
    stride, padding = p[f"s{extent}"], p[f"p{extent}"]
    begins = (place * stride - padding for place in range(output_extent(p[extent], p[kernel], stride, padding)))
    return sum(min(p[extent], begin + p[kernel]) - max(0, begin) for begin in begins)


def _depthwise(planes: Recorded, fpu: bool) -> tuple[str, Counts]:
    """Some columns of results at a time down a plane.

    Without a floating-point unit by fours, zeros beyond a row among them, and those of a weight gradient one by one.
    """
    counts = _nested(("products", "strips"), planes.n * planes.rows, planes.height)
    rows, size = counts["strips"], blocks()
    whole, left = divmod(planes.width, size.depthwise_columns)
    if fpu:
        return DEPTHWISE, counts + Counter({"tiles": rows * whole, "pairs": rows * (left > 0)})
    return DEPTHWISE, counts + Counter({"tiles": rows * -(-planes.width // size.tile), "taps": rows * planes.width})


def _product(q: Recorded, _fpu: bool) -> tuple[str, Counts]:
    """By tiles of a kernel, or row by row."""
    kernel = next((name for name in q.kernels if not name.endswith("_pair")), "")
    size, begun = blocks(), Counter(products=1)
    if kernel in ("vector", "outer"):
        return kernel, begun + _nested(
            ("strips", "tiles", "taps"), q.rows, -(-q.columns // size.vector_columns), q.k_rows
        )
    if q.by_elements:
        return "outer, by elements", begun + _nested(("strips", "taps"), q.rows, q.columns)
    columns = -(-q.columns // size.tile)
    if not q.tile_rows:
        nested = ("strips", "row tiles", "row channels", "row tap rows", "row taps")
        return _few_rows(q, kernel), begun + _nested(nested, q.rows * q.panels, columns, q.channels, q.k_rows, q.taps)
    strips = -(-q.rows // q.tile_rows) * q.panels
    pairs = strips * any(name.endswith("_pair") for name in q.kernels)
    begun["strips"] = strips
    tiles = ("tiles", "tap channels", "tap rows", "taps")
    counts = begun + _nested(tiles, strips * columns - pairs, q.channels, q.k_rows, q.taps)
    counts += Counter({"pairs": pairs, "pair taps": pairs * q.channels * q.k_rows * q.taps})
    return kernel, counts + Counter(buffered=0 if q.in_place else strips * min(q.rows, size.tile) * q.columns)


def _few_rows(q: Recorded, kernel: str) -> str:
    """The way of a product that is computed one row and four columns at a time."""
    if kernel == "depthwise_padded":
        return "single channels, parted" if q.out_column == PAIR else "single channels"
    if q.b_column > 1:
        return "few rows, columns apart"
    plain = q.channels == q.taps == q.out_column == 1 and q.columns >= blocks().tile
    return "few rows of a matrix" if plain else "few rows"


def _by_rows(q: Recorded, fpu: bool) -> tuple[str, Counts]:
    """Columns by fours, and those left; of few rows, and of taps apart, row by row."""
    size, counts, taps = blocks(), Counter(products=1), (q.k_rows, q.taps)
    if "nt_3x3" in q.kernels:
        kernels, (pairs, left) = q.columns // 9, divmod(q.rows, PAIR)
        return "windows of 3x3", counts + _nested(TILES, kernels * pairs, *taps) + _nested(
            ROW_TILES, kernels * left, *taps
        )
    if q.rows <= size.few_rows:
        return "rows by rows" + (", apart" if q.b_tap > 1 else ""), counts + _row(q, q.rows, q.columns)
    has_tiles = not fpu or q.b_tap <= PAIR
    for width, strips in ((size.tile, q.columns // size.tile), (q.columns % size.tile, 1)):
        rows = q.rows
        as_pair = fpu and width == PAIR and q.b_tap == 1
        if not width * strips:
            continue
        if as_pair or (has_tiles and width == size.tile):
            whole, rows = divmod(rows, size.tile)
            counts += _nested(PAIRS if as_pair else TILES, strips * whole, *taps) + Counter(strips=strips)
        elif not has_tiles or width <= size.few_rows:
            counts += Counter({name: strips * count for name, count in _row(q, rows, width).items()})
            continue
        parts = strips * -(-rows // size.tile)
        counts += _nested(TILES, parts, *taps) + Counter(parts=parts, buffered=strips * rows * width)
    return "tiles of rows", counts


def _row(q: Recorded, rows: int, columns: int) -> Counts:
    """Rows one by one: columns by eights and pairs with a kernel for that, else by fours; those left one by one."""
    counts, taps = Counter(strips=rows), (q.k_rows, q.taps)
    if "nt_row" in q.kernels and columns >= PAIR:
        eights, left = divmod(columns, AT_ONCE)
        pairs, left = divmod(left, PAIR)
        rest = q.k_rows * (q.taps % AT_ONCE)
        counts += _nested(ROW_TILES, rows * eights, *taps) + _nested(PAIRS, rows * pairs, *taps)
        counts += Counter({"row tap rest": rows * eights * rest, "pair tap rest": rows * pairs * rest})
    else:
        fours, left = divmod(columns, blocks().tile)
        counts += _nested(ROW_TILES, rows * fours, *taps)
    return counts + _nested(DOTS, rows * left, *taps)


_COUNTED = {"depthwise": _depthwise, "product": _product, "rows_by_rows": _by_rows}
