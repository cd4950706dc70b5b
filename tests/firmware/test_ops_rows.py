# SPDX-License-Identifier: Apache-2.0
"""Operators on bands of rows give the bits of the operators on whole planes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from poet_profiles.firmware.operators import positions, way_of

from tests.support import needs
from tests.support.firmware.host_operators import Array, Operators
from tests.support.levels import examples

pytestmark = needs.gcc

Params = dict[str, int]


@st.composite
def convolutions(draw: st.DrawFn, strides: tuple[int, ...] = (1, 2, 3)) -> Params:
    r, s = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    p = {
        **{"n": 1, "c": draw(st.integers(1, 5)), "h": draw(st.integers(r, 12)), "w": draw(st.integers(s, 12))},
        **{"k": draw(st.integers(1, 6)), "r": r, "s": s},
        **{"sh": draw(st.sampled_from(strides)), "sw": draw(st.sampled_from(strides))},
        **{"ph": draw(st.integers(0, r - 1)), "pw": draw(st.integers(0, s - 1))},
        **{"g": 1, "bias": draw(st.integers(0, 1))},
    }
    assume(way_of(p) == "direct")
    return p


def bands(draw: st.DataObject, rows: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each, from top to bottom."""
    cuts = draw.draw(st.sets(st.integers(1, rows - 1), max_size=4)) if rows > 1 else set()
    yield from pairwise([0, *sorted(cuts), rows])


def drawn(seed: int, *shape: int) -> Array:
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    numbers[numbers < -1.5] = 0.0
    return numbers


def rows_of(p: Params, begin: int, end: int) -> tuple[int, int, int]:
    """Rows of x that rows of y need and that there are; and where the first window begins."""
    first, last = begin * p["sh"] - p["ph"], (end - 1) * p["sh"] - p["ph"] + p["r"]
    low, high = max(0, min(first, p["h"] - 1)), min(p["h"], max(last, 1))
    return low, max(high, low + 1), first - low


def band(p: Params, begin: int, end: int) -> tuple[int, int, Params]:
    low, high, top = rows_of(p, begin, end)
    names = ("c", "w", "k", "r", "s", "sh", "sw", "pw", "bias")
    return low, high, {**{name: p[name] for name in names}, "h": high - low, "top": top, "rows": end - begin}


def spread(planes: Array, rows: int) -> Array:
    """The first rows of each plane, and what lies between them."""
    count, of, columns = planes.shape
    flat = np.ascontiguousarray(planes).reshape(-1)
    return flat[: ((count - 1) * of + rows) * columns]


def test_bands_of_a_convolution_and_of_its_weights_gradient(operators: Operators) -> None:
    @settings(max_examples=examples(150), deadline=None, derandomize=True)
    @given(convolutions(), st.data(), st.integers(0, 99))
    def equal(p: Params, data: st.DataObject, seed: int) -> None:
        x, w, b = (
            drawn(seed, *shape) for shape in ((p["c"], p["h"], p["w"]), (p["k"], p["c"], p["r"], p["s"]), (p["k"],))
        )
        oh, ow = positions(p)
        gy, bias = drawn(seed + 2, p["k"], oh, ow), (b,) if p["bias"] else ()
        whole = operators.run("conv2d", p, (x, w, *bias))[0].view(np.float32).reshape(p["k"], oh, ow)
        gradients = operators.run("conv2d_backward_weight", p, (gy, x))
        sums: list[Any] = [np.zeros_like(one) for one in (w, *bias)]
        for begin, end in bands(data, oh):
            low, high, params = band(p, begin, end)
            part = x[:, low:high]
            first = data.draw(st.integers(0, p["k"] - 1))
            last = data.draw(st.integers(first + 1, p["k"]))
            filtered = {**params, "of": end - begin, "first": first, "filters": last - first}
            (y,) = operators.run("conv2d_rows", filtered, (part, w, *bias))
            assert y.tobytes() == whole[first:last, begin:end].tobytes()
            below = {**params, "of": oh - begin}
            given = (spread(gy[:, begin:], end - begin), part, *sums)
            sums = [one.view(np.float32) for one in operators.run("conv2d_backward_weight_rows", below, given)]
        assert [one.tobytes() for one in sums] == [one.tobytes() for one in gradients]

    equal()


def test_bands_of_a_convolutions_input_gradient(operators: Operators) -> None:
    """By the rows of gy that a band meets, and more above them that a step may still hold."""

    @settings(max_examples=examples(150), deadline=None, derandomize=True)
    @given(convolutions(), st.data(), st.integers(0, 99))
    def equal(p: Params, data: st.DataObject, seed: int) -> None:
        p = {**p, "bias": 0}
        oh, ow = positions(p)
        gy, w = drawn(seed, p["k"], oh, ow), drawn(seed + 1, p["k"], p["c"], p["r"], p["s"])
        (gx,) = operators.run("conv2d_backward_input", p, (gy, w))
        whole = gx.view(np.float32).reshape(p["c"], p["h"], p["w"])
        for begin, end in bands(data, p["h"]):
            below = min((begin + p["ph"]) // p["sh"], oh - 1)
            low = data.draw(st.integers(0, max(0, min(-((p["r"] - 1 - begin - p["ph"]) // p["sh"]), below))))
            high = min(oh, (end - 1 + p["ph"]) // p["sh"] + 1)
            top = low * p["sh"] - p["ph"] - begin
            assume(top + (high - low - 1) * p["sh"] > -p["r"])
            names = ("c", "w", "k", "r", "s", "sh", "sw", "pw", "bias")
            params = {name: p[name] for name in names} | {"h": end - begin, "top": top}
            rows = {"rows": high - low, "of": high - low}
            (part,) = operators.run("conv2d_backward_input_rows", {**params, **rows}, (gy[:, low:high], w))
            assert part.tobytes() == whole[:, begin:end].tobytes()

    equal()


def test_features_of_a_dense_layer(operators: Operators) -> None:
    """Its gradients by columns of planes, its sums by features in order."""

    @settings(max_examples=examples(100), deadline=None, derandomize=True)
    @given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 12), st.data(), st.integers(0, 99))
    def equal(n: int, c: int, of: int, data: st.DataObject, seed: int) -> None:
        size, w, g, b = c * of, drawn(seed, n, c, of), drawn(seed + 1, n), drawn(seed + 2, n)
        x, sums = drawn(seed + 3, c, of), drawn(seed + 4, n, c, of)
        product = {"b": 1, "m": 1, "k": n, "n": size, "ta": 0, "tb": 0}
        gx = operators.run("matmul", product, (g, w))[0].view(np.float32).reshape(c, of)
        outer = {**product, "m": n, "k": 1}
        gw = operators.run("matmul_accumulate", outer, (g, x, sums))[0]
        y = operators.run("linear", {"m": 1, "k": size, "n": n, "bias": 1}, (x, w, b))[0]
        for begin, end in bands(data, of):
            params = {"c": c, "of": of, "at": begin, "size": end - begin}
            (part,) = operators.run("matmul_rows", {**params, "k": n}, (g, w))
            assert part.tobytes() == gx[:, begin:end].tobytes()
            given = (g, x[:, begin:end], sums)
            sums = operators.run("matmul_accumulate_rows", {**params, "m": n}, given)[0].view(np.float32)
        assert sums.tobytes() == gw.tobytes()
        so_far = np.zeros(n, np.float32)
        for begin, end in bands(data, size):
            params = {"k": end - begin, "n": n, "of": size, "at": begin, "bias": int(end == size)}
            given = (x.reshape(-1)[begin:end], w, so_far, *[b] * (end == size))
            so_far = operators.run("linear_rows", params, given)[0].view(np.float32)
        assert so_far.tobytes() == y.tobytes()

    equal()
