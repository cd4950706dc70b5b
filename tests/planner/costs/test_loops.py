# SPDX-License-Identifier: Apache-2.0
"""Loops that a small shape runs, counted one by one; and predictions of such shapes beside the emulated cores."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.costs.loops import loops
from poet_profiles.firmware.operators import output_extent, parse_params

from tests.support import needs
from tests.support.levels import examples

few = st.integers(1, 5)


@settings(max_examples=examples(60), deadline=None)
@given(few, few, st.integers(1, 7), st.integers(1, 7), few, few, few, st.integers(1, 3), st.integers(0, 2))
def test_taps_that_meet_the_plane_are_counted(
    n: int, c: int, h: int, w: int, k: int, r: int, s: int, stride: int, padding: int
) -> None:
    p = {"n": n, "c": c, "h": h, "w": w, "k": k, "r": r, "s": s, "sh": stride, "sw": stride}
    p |= {"ph": min(padding, r - 1), "pw": min(padding, s - 1), "g": 1, "bias": 0}
    rows, columns = output_extent(h, r, stride, p["ph"]), output_extent(w, s, stride, p["pw"])
    if min(h + 2 * p["ph"] - r, w + 2 * p["pw"] - s) < 0:
        return
    met = sum(
        0 <= y * stride - p["ph"] + i < h and 0 <= x * stride - p["pw"] + j < w
        for y, x, i, j in product(range(rows), range(columns), range(r), range(s))
    )
    counted = loops("conv2d", p, fpu=False)
    assert counted is not None
    assert counted.way == "Winograd" or counted.counts["met taps"] == n * k * c * met


@pytest.mark.parametrize(
    ("op", "params", "way", "counts"),
    [
        ("matmul", "b=1 m=5 k=7 n=9 ta=0 tb=0", "general", {"tiles": 2 * 3, "taps": 6 * 7}),
        ("linear", "m=1 k=7 n=9 bias=0", "rows by rows", {"row tiles": 2, "row taps": 14, "row dot taps": 7}),
        # An image's row of four results, four rows of one channel by one filter: each by itself, for twelve taps.
        (
            "conv2d",
            "n=2 c=1 h=4 w=4 k=1 r=3 s=4 sh=1 sw=1 ph=1 pw=0 g=1 bias=0",
            "few rows",
            {"products": 2, "strips": 8, "row tiles": 8, "row taps": 96, "filled rows": 12, "filled": 48},
        ),
        ("max_pool2d", "n=1 c=2 h=5 w=5 r=2 s=2 sh=2 sw=2 ph=0 pw=0", "windows of 2x2", {"strips": 4, "outputs": 8}),
    ],
)
def test_loops_are_those_of_the_firmware(op: str, params: str, way: str, counts: dict[str, int]) -> None:
    counted = loops(op, parse_params(params), fpu=False)
    assert counted is not None
    assert counted.way == way
    assert {name: counted.counts[name] for name in counts} == counts


# Shapes whose tiles are not whole, or that have one row of results; none is in the shipped profiles.
UNPROFILED = (
    ("linear", "m=4 k=256 n=9 bias=1"),
    ("linear", "m=2 k=48 n=5 bias=0"),
    ("matmul", "b=1 m=4 k=256 n=9 ta=0 tb=1"),
    ("matmul", "b=1 m=9 k=4 n=256 ta=1 tb=0"),
    ("matmul", "b=1 m=4 k=9 n=256 ta=0 tb=0"),
    ("conv2d_relu", "n=1 c=6 h=3 w=3 k=10 r=3 s=3 sh=1 sw=1 ph=0 pw=0 g=1 bias=1"),
    ("conv2d", "n=1 c=8 h=1 w=20 k=12 r=1 s=5 sh=1 sw=1 ph=0 pw=2 g=1 bias=1"),
    ("conv2d_backward_input", "n=2 c=3 h=5 w=5 k=6 r=3 s=3 sh=2 sw=2 ph=1 pw=1 g=1 bias=0"),
    ("conv2d_backward_weight", "n=2 c=3 h=5 w=5 k=6 r=3 s=3 sh=2 sw=2 ph=1 pw=1 g=1 bias=0"),
    ("conv2d_backward_input_rows", "c=4 h=12 w=47 k=8 r=3 s=3 sh=1 sw=1 pw=0 bias=0 top=-2 rows=14 of=14"),
    ("max_pool2d", "n=3 c=5 h=7 w=7 r=3 s=3 sh=2 sw=2 ph=0 pw=0"),
)
# Few inputs with a bias, no padding by Winograd's algorithm, planes of no whole fours of columns; what a step in bands
# cuts, carries and looks up; a pooling's windows that no row in bands has.
CLOSE = (
    ("linear", "m=48 k=8 n=80 bias=1"),
    ("conv2d_backward_input", "n=1 c=8 h=12 w=12 k=8 r=3 s=3 sh=1 sw=1 ph=0 pw=0 g=1 bias=0"),
    ("conv2d", "n=1 c=16 h=25 w=5 k=16 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=16 bias=1"),
    ("strided_copy", "d0=1 d1=1 d2=8 d3=540 s0=0 s1=0 s2=720 s3=1 offset=45 size=5760"),
    ("strided_copy_backward", "d0=1 d1=1 d2=4 d3=93 s0=0 s1=0 s2=961 s3=1 offset=496 size=3844"),
    ("look_up_rows", "c=3 h=96 w=96 top=22 rows=26"),
    ("shift", "rows=8 kept=270 count=450"),
    ("shift", "rows=30 kept=9 count=6"),
    ("sum_rows", "m=20 n=40"),
    ("embedding", "m=5 v=200 d=24"),
    ("max_pool2d_rows", "c=8 h=10 w=45 r=5 s=5 sh=5 sw=5 of=9 at=2"),
    ("max_pool2d_rows", "c=4 h=24 w=94 r=2 s=2 sh=2 sw=2 of=47 at=11"),
    ("conv2d_rows", "c=3 h=26 w=96 k=4 r=3 s=3 sh=1 sw=1 pw=0 bias=1 top=0 rows=24 of=24 first=0 filters=4"),
    ("conv2d_backward_weight_rows", "c=4 h=31 w=31 k=8 r=3 s=3 sh=1 sw=1 pw=0 bias=1 top=23 rows=4 of=4"),
    ("matmul_rows", "k=3 c=8 of=841 at=464 size=87"),
    ("matmul_accumulate_rows", "m=3 c=8 of=841 at=783 size=58"),
)


@needs.emulator
def test_small_shapes_that_nobody_profiled_take_what_is_predicted(tmp_path: Path) -> None:
    from poet_harness.profiling.configurations import Configuration
    from poet_profiles.boards import load_board

    from benchmarks.firmware.elements import cycles_of
    from benchmarks.firmware.predicted import cores, predicted, shipped_costs

    for board, core in cores(tmp_path).items():
        costs, hz = shipped_costs(board), load_board(board).clock_hz
        for shape in (Configuration(*one) for one in UNPROFILED + CLOSE):
            seconds = predicted(costs, shape)
            assert seconds is not None, shape
            off = 0.2 if (shape.op, shape.params) in UNPROFILED else 0.06
            assert seconds * hz == pytest.approx(cycles_of(core, shape), rel=off), (board, shape)
