# SPDX-License-Identifier: Apache-2.0
"""Small shapes, of which a model learns what products cost beside their multiply-accumulates.

Tiles that are not whole, short sums, few rows and columns, planes of one row: each loop of the firmware weighs much in
some of them. Lists have lengths without a common factor, so that each choice meets many others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

Shape = dict[str, int]

PRODUCTS, CONVOLUTIONS, ALONE, STRIDED, WINOGRAD, BANDS, POOLS = 32, 64, 32, 5, 10, 14, 21

KERNELS = (  # rows, columns, stride, padding
    *((3, 3, 1, 1), (3, 3, 1, 0), (1, 1, 1, 0), (3, 3, 2, 1), (5, 5, 1, 2), (2, 2, 1, 0)),
    *((1, 1, 2, 0), (1, 3, 1, 1), (1, 1, 1, 0), (2, 2, 2, 0), (5, 5, 2, 2), (3, 3, 2, 0), (1, 1, 1, 0)),
)
PLANES = ((2, 2), (4, 4), (1, 16), (5, 3), (8, 8), (1, 1), (6, 7))
BATCHES = (1, 4, 2, 1, 8)
LONG_ROWS = ((10, 56), (6, 80), (12, 36))
CHANNELS, FILTERS = (1, 2, 3, 5, 8, 12, 16, 4, 6), (2, 3, 4, 9, 10, 16, 24, 1)


def products() -> Iterator[tuple[int, int, int]]:
    """Batch, inputs, outputs."""
    yield from _mixed(PRODUCTS, (1, 2, 1, 4, 3, 8, 15), (4, 10, 16, 40, 100), (2, 3, 5, 8, 9, 10, 16, 20, 33))


def convolutions() -> Iterator[Shape]:
    """Direct ones, those of single channels, some for Winograd's algorithm, and bands of pictures."""
    for bias, (n, c, k, plane, kernel) in enumerate(_mixed(CONVOLUTIONS, BATCHES, CHANNELS, FILTERS, PLANES, KERNELS)):
        yield from _convolution(n, c, k, 1, plane, kernel, bias % 2)
    for bias, (n, c, plane, kernel) in enumerate(_mixed(ALONE, (1, 2, 4), (2, 5, 16, 8, 9), PLANES, KERNELS)):
        yield from _convolution(n, c, c, c, plane, kernel, bias % 2)
    for n, c, plane in _mixed(STRIDED, (1, 2), (4, 9, 16), ((8, 8), (6, 10), (12, 6), (6, 6), (10, 8))):
        yield from _convolution(n, c, c, c, plane, KERNELS[3], 0)
    for n, (c, k), plane in _mixed(
        WINOGRAD, (8, 2), ((8, 8), (12, 16), (24, 9)), ((4, 4), (6, 6), (4, 7), (7, 6), (9, 8))
    ):
        yield from _convolution(n, c, k, 1, plane, KERNELS[0], 0)
    kernels = (KERNELS[1], KERNELS[0], KERNELS[4], KERNELS[1], KERNELS[2], KERNELS[3], (4, 4, 2, 1))
    for c, k, plane, kernel in _mixed(BANDS, (3, 4, 8, 1, 6), (4, 8, 16, 6), LONG_ROWS, kernels):
        yield from _convolution(1, c, k, 1, plane, kernel, 1)


def pools() -> Iterator[Shape]:
    """Windows of 2x2 and others, of one row among them."""
    windows = ((2, 2, 2), (1, 2, 2), (3, 3, 2), (2, 2, 1), (1, 3, 3), (4, 4, 4), (2, 3, 2))
    planes = ((4, 4), (1, 24), (7, 7), (12, 12), (5, 5))
    for n, c, (h, w), (r, s, stride) in _mixed(POOLS, (1, 4), (1, 3, 8), planes, windows):
        if h >= r and w >= s:
            yield {"n": n, "c": c, "h": h, "w": w, **_window(r, s, stride, 0)}


def _convolution(
    n: int, c: int, k: int, groups: int, plane: tuple[int, int], kernel: tuple[int, int, int, int], bias: int
) -> Iterator[Shape]:
    """None where the kernel is larger than the plane."""
    (h, w), (r, s, stride, padding) = plane, kernel
    shape = {"n": n, "c": c, "h": h, "w": w, "k": k, **_window(r, s, stride, padding), "g": groups, "bias": bias}
    if h + 2 * shape["ph"] >= r and w + 2 * shape["pw"] >= s:
        yield shape


def _window(r: int, s: int, stride: int, padding: int) -> Shape:
    paddings = {"ph": min(padding, r // 2), "pw": min(padding, s // 2)}
    return {"r": r, "s": s, "sh": stride, "sw": stride, **paddings}


def _mixed(count: int, *choices: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return islice(zip(*(cycle(choice) for choice in choices), strict=True), count)
