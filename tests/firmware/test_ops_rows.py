# SPDX-License-Identifier: Apache-2.0
"""Operators on bands of rows give the bits of the operators on whole planes, whatever the bands are."""

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
    """Of x, those that rows of y need and that there are; and where in them the first window begins."""
    first, last = begin * p["sh"] - p["ph"], (end - 1) * p["sh"] - p["ph"] + p["r"]
    low, high = max(0, min(first, p["h"] - 1)), min(p["h"], max(last, 1))
    return low, max(high, low + 1), first - low


def band(p: Params, begin: int, end: int) -> tuple[int, int, Params]:
    low, high, top = rows_of(p, begin, end)
    names = ("c", "w", "k", "r", "s", "sh", "sw", "pw", "bias")
    return low, high, {**{name: p[name] for name in names}, "h": high - low, "top": top, "rows": end - begin}


def spread(planes: Array, rows: int) -> Array:
    """The first rows of each plane, and what lies between them: from the first element to the last."""
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
            (y,) = operators.run("conv2d_rows", {**params, "of": end - begin}, (part, w, *bias))
            assert y.tobytes() == whole[:, begin:end].tobytes()
            below = {**params, "of": oh - begin}
            given = (spread(gy[:, begin:], end - begin), part, *sums)
            sums = [one.view(np.float32) for one in operators.run("conv2d_backward_weight_rows", below, given)]
        assert [one.tobytes() for one in sums] == [one.tobytes() for one in gradients]

    equal()
