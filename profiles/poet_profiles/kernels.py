# SPDX-License-Identifier: Apache-2.0
"""Which products an operator consists of, and which of the firmware's kernels they enter with a floating-point unit.

A mirror of the choices in firmware/src/ops: gemm.c, gemm_nt.c, micro_kernel_choice_m4f_inl.h, and the operators that
describe their products to them. A program links the kernels that are named here; without one of a product it computes
the same bits by loops. What an operator costs is predicted from its products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from poet_profiles.operators import (
    ACCUMULATE,
    BLOCK,
    POSITIONS_AT_A_TIME,
    Params,
    is_depthwise,
    is_small_planes,
    is_winograd,
    laid_out,
    output_extent,
    plain_update,
)

FEW = 2  # rows or columns: no tile
NT_COLUMNS = 36  # at a time
ROW_TAPS = 8
VECTOR_COLUMNS = 16
KERNEL_WEIGHTS, KERNEL_WIDTH = 9, 3
_CONVOLUTIONS: dict[str, Callable[[Params], bool]] = {
    "depthwise": is_depthwise,
    "small_planes": is_small_planes,
    "winograd": is_winograd,
}


def kernels_of(op: str, params: Params) -> frozenset[str]:
    """Names, as POET_KERNELS takes them, of all kernels that an operator may enter.

    Of operators that read tiles of weights from the card, which may come in halves: those for both.
    """
    named = {name for name, suits in _CONVOLUTIONS.items() if suits(params)}
    if named & {"depthwise", "winograd"}:
        return frozenset(named)
    adds = op.endswith(ACCUMULATE)
    for product in products_of(op, params):
        if isinstance(product, RowsByRows) or not adds:
            named |= product.kernels()
    return frozenset(named)


def products_of(op: str, params: Params) -> Iterator[AnyProduct]:
    """All that an operator computes if it is neither depthwise nor by Winograd's algorithm; none of other operators."""
    base = plain_update(op).removeprefix("streamed_").removesuffix(ACCUMULATE).removesuffix("_relu")
    products = _PRODUCTS.get(base)
    return products(params, op.startswith("streamed_")) if products else iter(())


@dataclass(frozen=True)
class Product:
    """What of a ``poet_gemm`` decides how it is computed, and how often it is."""

    rows: int
    columns: int
    channels: int
    k_rows: int
    taps: int
    a_row: int
    a_channel: int
    a_k_row: int
    a_tap: int
    b_column: int
    b_tap: int
    out_column: int
    panels: int = 1
    started: bool = False
    times: int = 1

    def kernels(self) -> set[str]:
        """As poet_conv_multiply."""
        if self.is_single_channel():
            return {"depthwise_padded"}
        kernel = self.kernel()
        if kernel is None:
            return set()
        return {kernel, f"{kernel}_pair"} if self.has_pair(kernel) else {kernel}

    def is_single_channel(self) -> bool:
        """As poet_depthwise_padded_multiply: of kernels of 3x3, or parted by the stride of an input gradient."""
        if self.rows > FEW or self.channels != 1:
            return False
        descends = (self.b_tap, self.b_column) == (-1, 1)
        shape = (self.k_rows, self.taps, self.a_k_row, self.a_tap, self.out_column)
        if shape == (KERNEL_WIDTH, KERNEL_WIDTH, KERNEL_WIDTH, 1, 1):
            return descends or (self.b_tap == 1 and self.b_column <= FEW)
        return descends and self.out_column == FEW and max(self.k_rows, self.taps) <= FEW

    def kernel(self) -> str | None:
        """That of all columns but the last ones."""
        if self.is_outer():
            return "outer" if self.columns >= VECTOR_COLUMNS else None
        if self.rows <= FEW:
            return "vector" if self._plain() and self.columns >= VECTOR_COLUMNS else None
        return self._tiles()

    def in_place(self, kernel: str) -> bool:
        """Whether results are stored where they belong, and not through a buffer."""
        whole = kernel.startswith("gradient") or kernel in ("transposed_five", "transposed_spread")
        return whole or (self.rows >= BLOCK and self.columns >= BLOCK and self.out_column == 1)

    def has_pair(self, kernel: str) -> bool:
        """Whether the last one or two columns have a kernel of their own."""
        paired = kernel in ("singles", "transposed", "strided")
        return paired and self.in_place(kernel) and self.columns % BLOCK in (1, 2)

    def is_outer(self) -> bool:
        """Whether it is a column by a row, begun with no sum."""
        return self._plain() and self.k_rows == 1 and not self.started

    def _plain(self) -> bool:
        return (self.channels, self.taps, self.b_column, self.out_column, self.panels) == (1, 1, 1, 1, 1)

    def _tiles(self) -> str:
        if self.columns >= BLOCK and (gradient := self._gradient()):
            return gradient
        one_k_row = self.k_rows == 1
        channels, k_rows = (1, self.channels) if one_k_row else (self.channels, self.k_rows)
        a_k_row = self.a_channel if one_k_row else self.a_k_row
        singles = self.taps == 1 and channels == 1
        if singles and a_k_row == 1 and self.b_column in (1, 2):
            return "singles" if self.b_column == 1 else "singles_stride_2"
        if singles and self.b_column == 1 and not self.started:
            return self._transposed() if self.rows >= BLOCK and self.a_row == 1 else "strided"
        triples = channels == 1 and self.taps == 3 and k_rows % 3 == 0 and (self.a_tap, a_k_row) == (1, 3)
        if triples and self.b_tap == 1 and self.b_column in (1, 2):
            return "triples" if self.b_column == 1 else "triples_stride_2"
        return "general"

    def _transposed(self) -> str:
        if self.columns < BLOCK or self.out_column > 2:
            return "transposed"
        if self.out_column == 2:
            return "transposed_spread"
        return "transposed_five" if self.rows % 5 == 0 and self.rows % BLOCK else "transposed"

    def _gradient(self) -> str | None:
        if (self.a_row, self.b_column, self.b_tap) != (KERNEL_WEIGHTS, 1, -1):
            return None
        form = (self.taps, self.k_rows, self.a_tap, self.a_k_row, self.out_column)
        if form == (3, 3, 1, 3, 1):
            if self.rows % 3 == 0 and self.rows % BLOCK:
                return "gradient_three"
            return "gradient_3x3" if self.rows >= BLOCK else None
        if max(self.taps, self.k_rows) <= 2 and form[2:] == (2, 6, 2) and self.rows >= BLOCK:
            return f"gradient_{self.k_rows}x{self.taps}"
        return None


@dataclass(frozen=True)
class RowsByRows:
    """What of a ``poet_gemm_nt`` decides; ``places`` are those of its columns, at most as many as are taken at once."""

    rows: int
    places: Sequence[int]
    b_tap: int
    k_rows: int
    taps: int
    times: int = 1

    def kernels(self) -> set[str]:
        """As poet_gemm_nt_add."""
        if self.are_windows():
            return {"nt_3x3"}
        if self.rows <= FEW:
            return self._row(len(self.places))
        whole, left = divmod(len(self.places), BLOCK)
        named = set()
        for columns in ([BLOCK] if whole else []) + ([left] if left else []):
            named |= self._tiles(columns)
        return named

    def _tiles(self, columns: int) -> set[str]:
        fours = {1: "nt_fours", 2: "nt_fours_stride_2"}.get(self.b_tap)
        pairs = columns == 2 and self.b_tap == 1
        if fours is None or (columns <= FEW and not pairs):
            return self._row(columns)
        named = {"nt_pairs"} if pairs and self.rows >= BLOCK else set()
        return named if pairs and self.rows % BLOCK == 0 else {*named, fours}

    def _row(self, columns: int) -> set[str]:
        return {"nt_row"} if self.b_tap == 1 and self.taps >= ROW_TAPS and columns >= 2 else set()

    def are_windows(self) -> bool:
        """Whether the columns are the places of 3x3 kernels."""
        if len(self.places) % KERNEL_WEIGHTS or self.b_tap not in (1, 2):
            return False
        return all(
            (second - first, third - first) == (1, 2)
            for first, second, third in zip(*(self.places[start::KERNEL_WIDTH] for start in range(3)), strict=True)
        )


def _rows_by_rows(
    rows: int, places: Sequence[int], b_tap: int, k_rows: int, taps: int, times: int = 1
) -> Iterator[RowsByRows]:
    for first in range(0, len(places), NT_COLUMNS):
        yield RowsByRows(rows, places[first : first + NT_COLUMNS], b_tap, k_rows, taps, times)


AnyProduct = Product | RowsByRows


def _counts(rows: int, tile: int, group: int, halves: bool) -> Counter[int]:
    """How often so many rows of weights are computed at once: tile by tile, and of one group."""
    counts: Counter[int] = Counter()
    for step in {tile, tile // 2} - {0} if halves and tile < rows else {tile}:
        for first in range(0, rows, step):
            end = min(first + step, rows)
            while first < end:
                count = min(group - first % group, end - first)
                counts[count] += 1
                first += count
    return counts


def _filters(p: Params, streamed: bool) -> Counter[int]:
    return _counts(p["k"], p.get("tile", p["k"]), p["k"] // p["g"], streamed)


def positions(p: Params) -> tuple[int, int]:
    """Rows and columns of a convolution's results."""
    return (
        output_extent(p["h"], p["r"], p["sh"], p["ph"]),
        output_extent(p["w"], p["s"], p["sw"], p["pw"]),
    )


def reads_in_place(p: Params) -> bool:
    """Whether a convolution reads its input where it lies; ``p`` as laid out."""
    return (p["r"], p["s"], p["ph"], p["pw"]) == (1, 1, 0, 0) and positions(p)[1] >= BLOCK


def _conv2d(params: Params, streamed: bool) -> Iterator[AnyProduct]:
    p = laid_out(params)
    channels = p["c"] // p["g"]
    rows, columns = positions(p)
    for count, groups in _filters(p, streamed).items():
        if is_small_planes(params):
            yield _small_planes(count, p["n"], channels, 9 * channels, 9, 4 * channels, 4 * p["k"], True)
            continue
        panels = rows if reads_in_place(p) or channels == 1 else 1
        yield Product(
            rows=count,
            columns=columns,
            channels=1,
            k_rows=channels * p["r"],
            taps=p["s"],
            a_row=channels * p["r"] * p["s"],
            a_channel=0,
            a_k_row=p["s"],
            a_tap=1,
            b_column=p["sw"],
            b_tap=1,
            out_column=1,
            panels=panels,
            started=bool(p["bias"]),
            times=p["n"] * groups * (rows // panels),
        )


def _small_planes(
    rows: int, columns: int, channels: int, a_row: int, a_channel: int, b_column: int, out_column: int, forward: bool
) -> Product:
    tap = 1 if forward else -1
    places = (a_row, a_channel, 3, 1, b_column, tap, out_column)
    return Product(rows, columns, channels, 2, 2, *places, started=True, times=4)


@dataclass(frozen=True)
class _Phase:
    """One axis of an input gradient's phase: so many taps, so many elements."""

    taps: int
    count: int


def _phase(remainder: int, kernel: int, stride: int, padding: int, extent: int) -> _Phase:
    begin = remainder - padding
    while begin < 0:
        begin += stride
    taps = -(-(kernel - remainder) // stride) if remainder < kernel else 0
    return _Phase(taps, -(-(extent - begin) // stride) if begin < extent else 0)


def _conv2d_backward_input(params: Params, streamed: bool) -> Iterator[AnyProduct]:
    p = laid_out(params)
    channels, filters = p["c"] // p["g"], p["k"] // p["g"]
    strides = -(-p["h"] // p["sh"]) if reads_in_place(p) or filters == 1 else 1
    for count, groups in _filters(p, streamed).items():
        if is_small_planes(params):
            yield _small_planes(channels, p["n"], count, 9, 9 * channels, 4 * p["k"], 4 * p["c"], False)
            continue
        for row in (_phase(i, p["r"], p["sh"], p["ph"], p["h"]) for i in range(p["sh"])):
            for column in (_phase(j, p["s"], p["sw"], p["pw"], p["w"]) for j in range(p["sw"])):
                if min(row.taps, row.count, column.taps, column.count) > 0:
                    panels = min(row.count, strides)
                    yield Product(
                        rows=channels,
                        columns=column.count,
                        channels=count,
                        k_rows=row.taps,
                        taps=column.taps,
                        a_row=p["r"] * p["s"],
                        a_channel=channels * p["r"] * p["s"],
                        a_k_row=p["sh"] * p["s"],
                        a_tap=p["sw"],
                        b_column=1,
                        b_tap=-1,
                        out_column=p["sw"],
                        panels=panels,
                        times=p["n"] * groups * (row.count // panels),
                    )


def _conv2d_backward_weight(params: Params, streamed: bool) -> Iterator[AnyProduct]:
    p = laid_out(params)
    channels = p["c"] // p["g"]
    rows, columns = positions(p)
    padded = p["ph"] > 0 or p["pw"] > 0
    step = min(-(-POSITIONS_AT_A_TIME // columns), rows) if padded and channels > 1 else rows
    for count, groups in _filters(p, streamed).items():
        if is_small_planes(params):
            yield Product(count, channels, p["n"], 2, 2, 4, 4 * p["k"], 2, 1, 4, 1, 9, started=True, times=4)
            continue
        for at_once, times in ((step, rows // step), (rows % step, 1)):
            if at_once == 0:
                continue
            height = (at_once - 1) * p["sh"] + p["r"] if padded else p["h"]
            width = (columns - 1) * p["sw"] + p["s"] if padded else p["w"]
            places = [
                (channel * height + r) * width + s
                for channel in range(channels)
                for r in range(p["r"])
                for s in range(p["s"])
            ]
            yield from _rows_by_rows(count, places, p["sw"], at_once, columns, p["n"] * groups * times)


def _factors(
    m: int, k: int, n: int, a: tuple[int, int], c: tuple[int, int], y_m: int, times: int
) -> Iterator[AnyProduct]:
    """A matrix product; distances of the factors' rows and columns."""
    (a_m, a_k), (c_k, c_n) = a, c
    if a_k == c_k == 1:
        yield from _rows_by_rows(m, [column * c_n for column in range(n)], 1, 1, k, times)
    elif n >= BLOCK:
        yield Product(m, n, 1, k, 1, a_m, 0, a_k, 0, c_n, 0, 1, times=times)
    elif m >= BLOCK:
        yield Product(n, m, 1, k, 1, c_n, 0, c_k, 0, a_m, 0, y_m, times=times)


def _linear(p: Params, streamed: bool) -> Iterator[AnyProduct]:
    for n, times in _counts(p["n"], p.get("tile", p["n"]), p["n"], streamed).items():
        yield from _factors(p["m"], p["k"], n, (p["k"], 1), (1, p["k"]), p["n"], times)


def _linear_backward_input(p: Params, streamed: bool) -> Iterator[AnyProduct]:
    for k, times in _counts(p["n"], p["tile"], p["n"], streamed).items():
        yield from _factors(p["m"], k, p["k"], (p["n"], 1), (p["k"], 1), p["k"], times)


def _linear_update(p: Params, _streamed: bool) -> Iterator[AnyProduct]:
    for m, times in _counts(p["n"], p["tile"], p["n"], False).items():
        yield from _factors(m, p["m"], p["k"], (1, p["n"]), (p["k"], 1), p["k"], times)


def _matmul(p: Params, _streamed: bool) -> Iterator[AnyProduct]:
    m, k, n = p["m"], p["k"], p["n"]
    yield from _factors(m, k, n, (1, m) if p["ta"] else (k, 1), (1, k) if p["tb"] else (n, 1), n, p.get("b", 1))


_PRODUCTS: dict[str, Callable[[Params, bool], Iterator[AnyProduct]]] = {
    "conv2d": _conv2d,
    "conv2d_backward_input": _conv2d_backward_input,
    "conv2d_backward_weight": _conv2d_backward_weight,
    "conv2d_update": _conv2d_backward_weight,
    "linear": _linear,
    "linear_backward_input": _linear_backward_input,
    "linear_update": _linear_update,
    "matmul": _matmul,
}
