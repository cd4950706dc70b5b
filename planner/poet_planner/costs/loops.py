# SPDX-License-Identifier: Apache-2.0
"""How often the firmware's loops run in one call of a convolution, a matrix product or a pooling.

A small product takes much longer than its multiply-accumulates say: a tile of 4 x 4 results is computed whole where
there are fewer, and each product, each tile and each row of taps begins anew. What is counted here is what the code in
firmware/src/ops does: by tiles (`gemm.c`, `gemm_nt.c`), row by row where there are few, by Winograd's algorithm, or on
single channels. What each costs is fitted on the profile's rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from poet_profiles.kernels import (
    FEW,
    ROW_TAPS,
    VECTOR_COLUMNS,
    Product,
    RowsByRows,
    positions,
    products_of,
    reads_in_place,
)
from poet_profiles.operators import (
    ACCUMULATE,
    BLOCK,
    DEPTHWISE_COLUMNS,
    POSITIONS_AT_A_TIME,
    S8,
    WINOGRAD_PART,
    WINOGRAD_TILES,
    Params,
    is_depthwise,
    is_small_planes,
    is_winograd,
    laid_out,
    output_extent,
    positions_met,
)

WINOGRAD, DEPTHWISE = "Winograd", "depthwise"
ROWS_AT_ONCE = {"transposed_five": 5, "gradient_three": 3}  # of a kernel's tiles; else a block
TAPS_AT_ONCE = 8  # of a row times rows
COLUMNS_AT_ONCE = 8
PAIR = 2  # rows or columns

Counts = Counter[str]


@dataclass(frozen=True)
class Loops:
    """By what ``way`` a call is computed, and how often each of its loops runs; those by ``products`` are similar."""

    way: str
    counts: Counts
    products: bool = False


def loops(op: str, params: Params, fpu: bool, whole: Params | None = None) -> Loops | None:
    """None of an operator whose loops are not counted. Of a part of a ``whole``, that decides about the algorithm.

    Without a floating-point unit (``fpu``) there is one kernel of tiles.
    """
    if op.endswith(S8):
        return None
    base = op.removesuffix(ACCUMULATE)
    is_convolution = {"r", "g"} <= params.keys()
    if "r" in params and not is_convolution:
        return _windows(params)
    if not is_convolution and base not in ("linear", "matmul"):
        return None
    if is_convolution and is_winograd(whole or params):
        return Loops(WINOGRAD, _winograd(base, params))
    counts: Counts = Counter()
    if is_convolution:
        counts += _convolution(op, params)
        if not fpu:
            counts["met taps"] = _met_taps(params)
        if is_depthwise(params):
            return Loops(f"{DEPTHWISE}, stride {params['sh']}", counts + _depthwise(params, fpu))
    else:
        counts["outputs"] = params.get("b", 1) * params["m"] * params["n"]
    ways = set()
    for product in products_of(base, params):
        way, of_product = _by_rows(product, fpu) if isinstance(product, RowsByRows) else _by_tiles(product, fpu)
        ways.add(way)
        counts += Counter({name: product.times * count for name, count in of_product.items()})
    if not ways:
        counts["row dots"] = counts["outputs"]
        counts["row dot taps"] = counts["outputs"] * params["k"]
    return Loops(" and ".join(sorted(ways)) or "single sums", counts, products=True)


def _windows(p: Params) -> Loops:
    """A pooling's."""
    planes, rows = p["n"] * p["c"], output_extent(p["h"], p["r"], p["sh"], p["ph"])
    results = planes * rows * output_extent(p["w"], p["s"], p["sw"], p["pw"])
    counts = Counter(
        {
            "products": planes,
            "strips": planes * rows,
            "outputs": results,
            "tap rows": results * p["r"],
            "taps": results * p["r"] * p["s"],
            "filled": planes * p["h"] * p["w"],
        }
    )
    plain = (p["r"], p["s"], p["ph"], p["pw"]) == (2, 2, 0, 0)
    return Loops("windows of 2x2" if plain else "windows", counts)


def _winograd(op: str, p: Params) -> Counts:
    """Tiles of 2x2 results, eight at a time: by fours of tiles, of filters and, in a weight gradient, of channels."""
    height, width, channels, filters = *positions(p), p["c"], p["k"]
    if op == "conv2d_backward_input":
        height, width, channels, filters = p["h"], p["w"], p["k"], p["c"]
    tiles = p["n"] * -(-height // 2) * -(-width // 2)
    batches, parts, blocks = -(-tiles // WINOGRAD_TILES), -(-channels // WINOGRAD_PART), -(-filters // BLOCK)
    if op == "conv2d_backward_weight":
        products = batches * -(-channels // BLOCK) * blocks
        sums = {"tiles": products, "taps": tiles * -(-channels // BLOCK) * blocks, "outputs": products * BLOCK}
        return Counter({"filled": tiles * channels, "strips": tiles * parts * blocks, **sums})
    groups, whole = -(-tiles // BLOCK), _whole_groups(tiles, height, width)
    return Counter(
        {
            "filled": groups * BLOCK * channels,
            "strips": batches * channels * blocks,
            "taps": groups * channels * blocks,
            "tiles": groups * parts * blocks,
            "outputs": whole * parts * filters,
            "parts": (groups - whole) * parts * filters,
        }
    )


def _whole_groups(tiles: int, height: int, width: int) -> int:
    """How many groups of four tiles are two pairs side by side of which all results lie inside of the plane."""
    across, down = -(-width // 2), -(-height // 2)

    def is_whole(first: int) -> bool:
        row, column = first // across % down, first % across
        return 2 * row + 2 <= height and 2 * column + 4 <= width

    return sum(is_whole(first) and is_whole(first + 2) for first in range(0, tiles - BLOCK + 1, BLOCK))


def _depthwise(p: Params, fpu: bool) -> Counts:
    """Some columns of results at a time down a plane; without a floating-point unit one by one."""
    rows, columns = positions(p)
    planes = p["n"] * p["c"]
    rows *= planes
    whole, left = divmod(columns, DEPTHWISE_COLUMNS)
    tiles = {"tiles": rows * whole, "pairs": rows * (left > 0)} if fpu else {"tap rows": rows * columns * p["r"]}
    return Counter({"products": planes, "strips": rows, **tiles})


def _convolution(op: str, params: Params) -> Counts:
    """What is beside its products: rows laid out with their padding, results, the bias's gradient."""
    p = laid_out(params)
    rows, columns = positions(p)
    images, channels = p["n"] * p["g"], p["c"] // p["g"]
    results = p["n"] * p["k"] * rows * columns
    counts: Counts = Counter(groups=images)
    if op.startswith("conv2d_backward_input"):
        channels = p["k"] // p["g"]
        strides = -(-p["h"] // p["sh"])
        at_once = strides if reads_in_place(p) or channels == 1 else 1
        laid = (positions_met(at_once * p["sh"], p["r"], p["sh"], p["ph"])) * (strides // at_once)
        width = min(columns, positions_met(max(p["w"], BLOCK * p["sw"]), p["s"], p["sw"], p["pw"]))
        if p["sh"] > p["r"] or p["sw"] > p["s"] or op.endswith(ACCUMULATE):
            counts["outputs"] = p["n"] * p["c"] * p["h"] * p["w"]
        fills, in_place = strides // at_once, reads_in_place(p)
    elif op.startswith("conv2d_backward_weight"):
        in_place = p["ph"] == p["pw"] == 0
        at_once = rows if in_place or channels == 1 else min(-(-POSITIONS_AT_A_TIME // columns), rows)
        fills = -(-rows // at_once)
        laid = (rows - fills) * p["sh"] + fills * p["r"]
        width = min(p["w"], (columns - 1) * p["sw"] + p["s"])
        counts["outputs"] = p["k"] * channels * p["r"] * p["s"]
        counts["bias"] = p["bias"] * results
    else:
        in_place = reads_in_place(p)
        fills = 1 if in_place or channels == 1 else rows
        laid = (rows - fills) * p["sh"] + fills * p["r"]
        width = min(p["w"], (max(columns, BLOCK) - 1) * p["sw"] + p["s"])
        counts["outputs"] = results
    if not in_place and not is_depthwise(params) and not is_small_planes(params):
        counts["fills"] = images * channels * fills
        counts["filled rows"] = images * channels * laid
        counts["filled"] = images * channels * laid * width
    return counts


def _met_taps(p: Params) -> int:
    """Of all results, without those on padding: in software, arithmetic is quicker on zeros."""
    met = 1
    for extent, kernel, stride, padding in ((p["h"], p["r"], p["sh"], p["ph"]), (p["w"], p["s"], p["sw"], p["pw"])):
        begins = range(-padding, output_extent(extent, kernel, stride, padding) * stride - padding, stride)
        met *= sum(min(extent, begin + kernel) - max(0, begin) for begin in begins)
    return p["n"] * p["k"] * (p["c"] // p["g"]) * met


def _by_tiles(q: Product, fpu: bool) -> tuple[str, Counts]:
    """As poet_gemm_multiply."""
    tap_rows = q.channels * q.k_rows
    taps = tap_rows * q.taps
    kernel = q.kernel() if fpu else None if q.rows <= FEW else "general"
    if kernel in ("vector", "outer"):
        tiles = q.rows * -(-q.columns // VECTOR_COLUMNS)
        return kernel, Counter(products=1, strips=q.rows, tiles=tiles) + Counter({"taps": tiles * taps})
    if kernel is None and fpu and q.is_outer():
        return "outer, by elements", Counter(products=1, strips=q.rows, taps=q.rows * q.columns)
    if kernel is None:
        return _few_rows(q, fpu)
    strips = -(-q.rows // ROWS_AT_ONCE.get(kernel, BLOCK)) * q.panels
    pairs = strips * (fpu and q.has_pair(kernel))
    tiles = strips * -(-q.columns // BLOCK) - pairs
    counts = {
        "products": 1,
        "strips": strips,
        "tiles": tiles,
        "tap channels": tiles * q.channels,
        "tap rows": tiles * tap_rows,
        "taps": tiles * taps,
        "pairs": pairs,
        "pair taps": pairs * taps,
        "buffered": 0 if q.in_place(kernel) else strips * min(q.rows, BLOCK) * q.columns,
    }
    return kernel, Counter(counts)


def _few_rows(q: Product, fpu: bool) -> tuple[str, Counts]:
    """One row and four columns at a time."""
    if fpu and q.is_single_channel():
        way = "single channels, parted" if q.out_column == PAIR else "single channels"
    elif q.b_column > 1:
        way = "few rows, columns apart"
    else:
        plain = q.channels == q.taps == q.out_column == 1 and q.columns >= BLOCK
        way = "few rows of a matrix" if plain else "few rows"
    rows = q.rows * q.panels
    tiles = rows * -(-q.columns // BLOCK)
    counts = {
        "products": 1,
        "strips": rows,
        "row tiles": tiles,
        "row channels": tiles * q.channels,
        "row tap rows": tiles * q.channels * q.k_rows,
        "row taps": tiles * q.channels * q.k_rows * q.taps,
    }
    return way, Counter(counts)


def _by_rows(q: RowsByRows, fpu: bool) -> tuple[str, Counts]:
    """As poet_gemm_nt_add."""
    columns, counts = len(q.places), Counter(products=1)
    if fpu and q.are_windows():
        kernels = columns // 9
        counts += _times(kernels * (q.rows // PAIR), "tiles", "tap rows", "taps", q)
        counts += _times(kernels * (q.rows % PAIR), "row tiles", "row tap rows", "row taps", q)
        return "windows of 3x3", counts
    if q.rows <= FEW:
        return "rows by rows" + (", apart" if q.b_tap > 1 else ""), counts + _row(q, q.rows, columns, fpu)
    has_tiles = not fpu or q.b_tap <= PAIR
    for width, strips in ((BLOCK, columns // BLOCK), (columns % BLOCK, 1)):
        if width == 0 or strips == 0:
            continue
        rows = q.rows
        as_pair = fpu and width == PAIR and q.b_tap == 1
        if as_pair or (has_tiles and width == BLOCK):
            names = ("pairs", "pair tap rows", "pair taps") if as_pair else ("tiles", "tap rows", "taps")
            counts += _times(strips * (rows // BLOCK), *names, q) + Counter(strips=strips)
            rows %= BLOCK
        elif not has_tiles or width <= FEW:
            counts += Counter({name: strips * count for name, count in _row(q, rows, width, fpu).items()})
            continue
        parts = strips * -(-rows // BLOCK)
        counts += _times(parts, "tiles", "tap rows", "taps", q) + Counter(parts=parts, buffered=strips * rows * width)
    return "tiles of rows", counts


def _row(q: RowsByRows, rows: int, columns: int, fpu: bool) -> Counts:
    """Rows one by one: columns by eights and pairs with a kernel for that, else by fours; those left one by one."""
    counts: Counts = Counter(strips=rows)
    if fpu and q.b_tap == 1 and q.taps >= ROW_TAPS and columns >= PAIR:
        eights, left = divmod(columns, COLUMNS_AT_ONCE)
        rest = q.k_rows * (q.taps % TAPS_AT_ONCE)
        counts += _times(rows * eights, "row tiles", "row tap rows", "row taps", q)
        counts += _times(rows * (left // PAIR), "pairs", "pair tap rows", "pair taps", q)
        counts += Counter({"row tap rest": rows * eights * rest, "pair tap rest": rows * (left // PAIR) * rest})
        left %= PAIR
    else:
        fours, left = divmod(columns, BLOCK)
        counts += _times(rows * fours, "row tiles", "row tap rows", "row taps", q)
    return counts + _times(rows * left, "row dots", "row dot rows", "row dot taps", q)


def _times(count: int, tiles: str, tap_rows: str, taps: str, q: RowsByRows) -> Counts:
    return Counter({tiles: count, tap_rows: count * q.k_rows, taps: count * q.k_rows * q.taps})
