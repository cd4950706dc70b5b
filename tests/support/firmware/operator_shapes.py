# SPDX-License-Identifier: Apache-2.0
"""Configurations of every operator, made by hypothesis: small, but with every feature that a kernel treats apart."""

from __future__ import annotations

import struct
from math import exp, gcd, lcm

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from poet_profiles.firmware.operators import rows_together

from tests.support.firmware.groups_of_steps import single_steps

Params = dict[str, int]
_SCALES = st.sampled_from([2.0**-e for e in range(1, 20)] + [0.75 / 255, 1.0, 3.0, 200.0, 2.0**-40])


@st.composite
def convolutions(draw: DrawFn) -> Params:
    """Plain, strided, padded, grouped and 1x1 convolutions, and each seventh by Winograd, depthwise, small."""
    kind = draw(st.integers(0, 6))
    if kind < 3:
        return draw((winograd_convolutions, depthwise_convolutions, small_planes)[kind]())
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 8]))
    depthwise = groups > 1 and draw(st.booleans())
    c, k = (1, draw(st.integers(1, 2))) if depthwise else (draw(st.integers(1, 9)), draw(st.integers(1, 10)))
    r, s = draw(st.sampled_from([(1, 1), (3, 3), (3, 3), (2, 3), (1, 5), (5, 1), (4, 2)]))
    ph, pw = draw(st.integers(0, min(r, 2))), draw(st.integers(0, min(s, 2)))
    h, w = draw(st.integers(max(1, r - 2 * ph), 13)), draw(st.integers(max(1, s - 2 * pw), 13))
    return {
        "n": draw(st.integers(1, 3)),
        "c": c * groups,
        "h": h,
        "w": w,
        "k": k * groups,
        "r": r,
        "s": s,
        "sh": draw(st.sampled_from([1, 1, 2, 3])),
        "sw": draw(st.sampled_from([1, 1, 2, 3])),
        "ph": ph,
        "pw": pw,
        "g": groups,
        "bias": draw(st.integers(0, 1)),
    }


@st.composite
def winograd_convolutions(draw: DrawFn) -> Params:
    """Whole and shorter parts of channels and blocks of filters, tiles at every border; a few are computed directly."""
    h, w = draw(st.integers(4, 8)), draw(st.sampled_from([4, 6, 7, 8, 10, 17]))
    ph, pw = draw(st.sampled_from([1, 1, 0, 2, 3])), draw(st.sampled_from([1, 1, 0, 2, 3]))
    c, k = draw(st.sampled_from([8, 9, 11, 16, 17])), draw(st.sampled_from([8, 9, 10, 16]))
    p = {"n": draw(st.integers(1, 2)), "c": c, "h": h, "w": w, "k": k}
    p |= {"r": 3, "s": 3, "sh": 1, "sw": 1, "ph": ph, "pw": pw, "g": 1}
    return p | {"bias": draw(st.integers(0, 1))}


@st.composite
def small_planes(draw: DrawFn) -> Params:
    """Of 2 x 2, and a few that are larger; images, channels and filters by fours, and others."""
    h, w = draw(st.sampled_from([(2, 2), (2, 2), (2, 2), (2, 3), (1, 2)]))
    p = {"n": draw(st.integers(3, 9)), "c": draw(st.integers(3, 9)), "h": h, "w": w, "k": draw(st.integers(1, 9))}
    return p | {"r": 3, "s": 3, "sh": 1, "sw": 1, "ph": 1, "pw": 1, "g": 1, "bias": draw(st.integers(0, 1))}


@st.composite
def depthwise_convolutions(draw: DrawFn) -> Params:
    """Of channels by themselves, or of one channel alone; every second one is laid out as others are."""
    stride, channels = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    filters, pad = draw(st.sampled_from([(1, 1), (1, 1), (1, 0), (1, 2), (2, 1)]))
    least = 3 - 2 * min(pad, 1)
    h, w = (max(least, draw(st.integers(1, 8)) * (1 if draw(st.booleans()) else stride)) for _ in range(2))
    p = {"n": draw(st.integers(1, 2)), "c": channels, "h": h, "w": w, "k": channels * filters}
    p |= {"r": 3, "s": 3, "sh": stride, "sw": draw(st.sampled_from([stride, stride, 1])), "ph": pad, "pw": pad}
    return p | {"g": channels, "bias": draw(st.integers(0, 1))}


@st.composite
def poolings(draw: DrawFn) -> Params:
    """Overlapping, gapped, padded and global pooling; padding at most half a window, as PyTorch demands."""
    r, s = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    ph, pw = draw(st.integers(0, r // 2)), draw(st.integers(0, s // 2))
    h, w = draw(st.integers(max(1, r - 2 * ph), 11)), draw(st.integers(max(1, s - 2 * pw), 11))
    if draw(st.booleans()):
        r, s, ph, pw = h, w, 0, 0
    n, c, sh, sw = (draw(st.integers(1, 3)) for _ in range(4))
    return {"n": n, "c": c, "h": h, "w": w, "r": r, "s": s, "sh": sh, "sw": sw, "ph": ph, "pw": pw}


@st.composite
def views(draw: DrawFn) -> Params:
    """Permutations, slices, selections, expansions and flips of a small tensor."""
    base = draw(st.lists(st.integers(1, 5), min_size=4, max_size=4))
    steps = [base[1] * base[2] * base[3], base[2] * base[3], base[3], 1]
    extents, strides, offset = [], [], 0
    for extent, step in draw(st.permutations(list(zip(base, steps, strict=True)))):
        first = draw(st.integers(0, extent - 1))
        length = draw(st.integers(1, extent - first))
        offset += first * step
        extents.append(length)
        direction = draw(st.sampled_from([0, -1, 1, 1, 1])) if length > 1 else 1
        offset += step * (length - 1) if direction < 0 else 0
        strides.append(direction * step)
    names = [f"d{axis}" for axis in range(4)] + [f"s{axis}" for axis in range(4)]
    return {**dict(zip(names, [*extents, *strides], strict=True)), "offset": offset, "size": base[0] * steps[0]}


def integers(**ranges: tuple[int, int]) -> SearchStrategy[Params]:
    return st.fixed_dictionaries({name: st.integers(low, high) for name, (low, high) in ranges.items()})


@st.composite
def groups(draw: DrawFn) -> Params:
    g = draw(st.integers(1, 4))
    return {"n": draw(st.integers(1, 4)), "c": g * draw(st.integers(1, 3)), "size": draw(st.integers(4, 40)), "g": g}


def _rows() -> SearchStrategy[Params]:
    return integers(m=(1, 9), n=(1, 17))


def _steps(**more: tuple[int, int]) -> SearchStrategy[Params]:
    return integers(s=(1, 5), n=(1, 5), h=(1, 9), **more)


def _elements() -> SearchStrategy[Params]:
    return integers(size=(1, 70))


def amounts(name: str, high: float = 2.0, low: float = 0.0) -> SearchStrategy[Params]:
    """The bits of a float, every other time of the least."""
    numbers = st.one_of(st.just(low), st.floats(low + 2.0**-10, high))
    return numbers.map(lambda number: {name: _bits(number)})


def _joined(parts: tuple[Params, ...]) -> Params:
    return {name: value for part in parts for name, value in part.items()}


@st.composite
def _descents(draw: DrawFn) -> Params:
    momentum = draw(st.sampled_from([0, 1, 123_456_789, 9 * 10**8, 10**9]))
    nesterov = draw(st.integers(0, 1)) if momentum else 0
    others = {**draw(amounts("decay_f32", 0.1)), **draw(amounts("clip_f32"))}
    return {"size": draw(st.integers(1, 70)), "momentum_nano": momentum, **others, "nesterov": nesterov}


def descent_of(p: Params, size: int) -> tuple[str, Params]:
    """The operator in RAM that descends as an update with such parameters does, and its own parameters."""
    names = {"adam": ("eps_f32", "decay_f32", "clip_f32")} if p.get("adam") else {}
    names["sgd_general"] = ("momentum_nano", "decay_f32", "clip_f32", "nesterov")
    op = next((op for op, own in names.items() if any(name in p for name in own)), "sgd")
    return op, {"size": size, **{name: p[name] for name in names.get(op, ())}}


def _with_descents(shapes: SearchStrategy[Params]) -> SearchStrategy[Params]:
    """Of updates: every other one plain, and none with a state."""
    general = st.tuples(st.just({"momentum_nano": 0, "nesterov": 0}), amounts("decay_f32", 0.1), amounts("clip_f32"))
    return st.tuples(shapes, st.one_of(st.just({}), general.map(_joined))).map(_joined)


def tiles(params: Params, along: str) -> SearchStrategy[Params]:
    """With tiles of any length, the last one often shorter."""
    return st.integers(1, params[along]).map(lambda tile: {**params, "tile": tile})


def whole_blocks(params: Params, rows: str, row_floats: int, together: int = 1) -> SearchStrategy[Params]:
    """With tiles of rows that are whole blocks of the card, so many of them together, or with one tile for all."""
    blocks = lcm(128 // gcd(128, row_floats), together)
    lengths = [*range(blocks, params[rows], blocks), params[rows]]  # the first is drawn most often
    return st.sampled_from(lengths).map(lambda tile: {**params, "tile": tile})


def _taps(p: Params) -> int:
    return p["c"] // p["g"] * p["r"] * p["s"]


@st.composite
def streamed_convolutions(draw: DrawFn, sums_over_tiles: bool = False) -> Params:
    """Convolutions whose rows of weights are blocks by twos to sixteens, so that small ones have several tiles."""
    params = draw(convolutions())
    if draw(st.integers(0, 3)):
        row = draw(st.sampled_from([(8, 1, 1), (16, 1, 1), (8, 3, 3), (16, 3, 3), (4, 4, 2), (32, 1, 1)]))
        g = draw(st.sampled_from([1, 1, 2]))
        c, r, s = row
        k = g * draw(st.integers(1, (24 if row == (16, 3, 3) else 50) // g))
        h, w = draw(st.integers(r, 9)), draw(st.integers(s, 9))
        params |= {"n": draw(st.integers(1, 2)), "c": c * g, "r": r, "s": s, "g": g, "k": k, "h": h, "w": w}
        params |= {"ph": min(params["ph"], r // 2), "pw": min(params["pw"], s // 2)}
        if (r, g) == (3, 1) and draw(st.booleans()):
            params |= {"n": draw(st.integers(4, 6)), "h": 2, "w": 2, "sh": 1, "sw": 1, "ph": 1, "pw": 1}
    together = rows_together("backward_input", params) if sums_over_tiles else 1
    return draw(whole_blocks(params, "k", _taps(params), together))


def _streamed_linears(**more: tuple[int, int]) -> SearchStrategy[Params]:
    rows = st.one_of(st.sampled_from([16, 32, 64, 128]), st.integers(1, 33))
    shapes = st.fixed_dictionaries({"k": rows, "n": st.integers(1, 70)})
    others = integers(m=(1, 10), **more)
    return st.tuples(shapes, others).flatmap(lambda p: whole_blocks(p[0] | p[1], "n", p[0]["k"]))


def _without_bias(params: Params) -> Params:
    return params | {"bias": 0}


def _bits(number: float) -> int:
    (bits,) = struct.unpack("<i", struct.pack("<f", number))
    return int(bits)


@st.composite
def ranges_s8(draw: DrawFn) -> Params:
    """As of a ReLU, of a clipped one, of none; or any."""
    zero = draw(st.integers(-128, 127))
    low, high = draw(st.sampled_from([(-128, 127), (-127, 127), (zero, 127), (zero, max(zero, 90)), (-20, 30)]))
    return {"zero_y": zero, "low": low, "high": high}


@st.composite
def scales_s8(draw: DrawFn) -> float:
    return draw(st.one_of(_SCALES, st.floats(-12.0, -0.5).map(exp)))


def _zeros(*names: str) -> SearchStrategy[Params]:
    return st.fixed_dictionaries({name: st.integers(-128, 127) for name in names})


def _floats(*names: str) -> SearchStrategy[Params]:
    return st.fixed_dictionaries({name: scales_s8().map(_bits) for name in names})


def _together(*parts: SearchStrategy[Params]) -> SearchStrategy[Params]:
    return st.tuples(*parts).map(_joined)


@st.composite
def convolutions_s8(draw: DrawFn) -> Params:
    params = {name: value for name, value in draw(convolutions()).items() if name != "bias"}
    if params["g"] == 1 and draw(st.integers(0, 7)) == 0:
        params["k"] = draw(st.sampled_from([65, 129, 130]))  # sums of fewer pixels at a time
    return params


def _one_zero(params: Params) -> Params:
    return {("zero" if name == "zero_y" else name): value for name, value in params.items()}


def _gathers() -> SearchStrategy[Params]:
    return integers(m=(1, 5), v=(1, 9), d=(1, 5), size=(1, 5), ignores=(0, 1), ignored=(-2, 8))


@st.composite
def _bands(draw: DrawFn, backward: bool = False) -> Params:
    """Of a convolution: rows of y that lie one after another, from above x to below it."""
    r, s, pw = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 1))
    sizes = {"c": draw(st.integers(1, 5)), "h": draw(st.integers(1, 9)), "w": draw(st.integers(s, 9))}
    windows = {
        "k": draw(st.integers(1, 6)),
        "r": r,
        "s": s,
        "sh": draw(st.integers(1, 3)),
        "sw": draw(st.integers(1, 3)),
    }
    top = draw(st.integers(1 - r, sizes["h"] - 1))
    rows = draw(st.integers(1, (sizes["h"] - 1 - top) // windows["sh"] + 1))
    given = {**sizes, **windows, "pw": pw, "bias": draw(st.integers(0, 1)), "top": top, "rows": rows, "of": rows}
    return {**given, "top": min(top, 0), "bias": 0} if backward else given


@st.composite
def _filtered_bands(draw: DrawFn) -> Params:
    params = draw(_bands())
    first = draw(st.integers(0, params["k"] - 1))
    return {**params, "first": first, "filters": draw(st.integers(1, params["k"] - first))}


@st.composite
def _columns(draw: DrawFn, *names: str, size: str = "size") -> Params:
    at, count = draw(st.integers(0, 3)), draw(st.integers(1, 9))
    of = at + count + draw(st.integers(0, 3))
    return {**{name: draw(st.integers(1, 5)) for name in names}, "of": of, "at": at, size: count}


@st.composite
def _pooled_bands(draw: DrawFn) -> Params:
    p = {name: value for name, value in draw(poolings()).items() if name not in ("n", "ph", "pw")}
    p |= {"h": max(p["h"], p["r"]), "w": max(p["w"], p["s"])}
    at, rows = draw(st.integers(0, 3)), (p["h"] - p["r"]) // p["sh"] + 1
    return {**p, "of": at + rows + draw(st.integers(0, 3)), "at": at}


@st.composite
def _rows_of_bytes(draw: DrawFn) -> Params:
    top, rows = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    return {**draw(integers(c=(1, 3), w=(1, 9))), "h": top + rows + draw(st.integers(0, 2)), "top": top, "rows": rows}


CONFIGURATIONS: dict[str, SearchStrategy[Params]] = {
    "pointwise": single_steps(),
    "conv2d_rows": _filtered_bands(),
    "conv2d_backward_weight_rows": _bands(),
    "conv2d_backward_input_rows": _bands(backward=True),
    "matmul_rows": _columns("k", "c"),
    "matmul_accumulate_rows": _columns("m", "c"),
    "linear_rows": _together(_columns("n", size="k"), integers(bias=(0, 1))),
    "max_pool2d_rows": _pooled_bands(),
    "max_pool2d_backward_rows": _together(_pooled_bands(), integers(own=(0, 1))),
    "look_up_rows": _rows_of_bytes(),
    **dict.fromkeys(
        (
            *("sgd", "mse_loss", "mse_loss_backward", "fetch", "store", "map_s8", "look_up"),
            *("binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits"),
        ),
        _elements(),
    ),
    **dict.fromkeys(
        (*("sum_rows", "log_softmax", "log_softmax_backward", "nll_loss", "nll_loss_backward", "softmax"), "add_rows"),
        _rows(),
    ),
    **dict.fromkeys(
        (
            *("max_pool2d", "max_pool2d_infer", "max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward"),
            "max_pool2d_s8",
        ),
        poolings(),
    ),
    "conv2d": convolutions(),
    "conv2d_relu": convolutions(),
    "conv2d_backward_input": convolutions(),
    "conv2d_backward_weight": convolutions(),
    "linear": integers(m=(1, 10), k=(1, 33), n=(1, 18), bias=(0, 1)),
    "matmul": integers(b=(1, 3), m=(1, 10), k=(1, 33), n=(1, 18), ta=(0, 1), tb=(0, 1)),
    "fill": integers(size=(1, 70), value_nano=(-(2**31), 2**31 - 1)),
    "batch_norm": integers(n=(1, 4), c=(1, 6), size=(2, 40), eps_nano=(1, 10**6)),
    "batch_norm_backward": integers(n=(1, 4), c=(1, 6), size=(4, 40)),
    "batch_norm_update": integers(c=(1, 9), count=(2, 5000), momentum_nano=(0, 10**9), eps_nano=(1, 10**6)),
    "layer_norm": integers(m=(1, 9), n=(2, 40), eps_nano=(1, 10**6)),
    "layer_norm_backward_input": integers(m=(1, 9), n=(4, 40)),
    "layer_norm_backward_weight": integers(m=(1, 9), n=(4, 40)),
    "softmax_backward": integers(m=(1, 9), n=(2, 17)),
    "embedding": integers(m=(1, 9), v=(1, 12), d=(1, 9)),
    "embedding_backward": integers(m=(1, 9), v=(1, 12), d=(1, 9)),
    "gather": _gathers(),
    "gather_backward": _gathers(),
    "sgd_momentum": integers(size=(1, 70), momentum_nano=(1, 10**9)),
    "bernoulli": integers(size=(1, 70), keep_nano=(0, 10**9), stream=(0, 2**31 - 1)),
    "advance": integers(steps=(1, 2**31 - 1)),
    "commit": integers(steps=(1, 100)),
    "sgd_update": integers(size=(1, 700)).flatmap(lambda p: tiles(p, "size")),
    "conv2d_update": convolutions().flatmap(lambda p: tiles(p, "k")),
    "linear_update": integers(m=(1, 10), k=(1, 33), n=(1, 18), bias=(0, 1)).flatmap(lambda p: tiles(p, "n")),
    "streamed_conv2d": streamed_convolutions(),
    "streamed_conv2d_backward_input": streamed_convolutions(sums_over_tiles=True),
    "streamed_conv2d_update": streamed_convolutions(),
    "streamed_linear": _streamed_linears(bias=(0, 1)),
    "streamed_linear_backward_input": _streamed_linears(),
    "streamed_linear_update": _streamed_linears(bias=(0, 1)),
    "streamed_sgd_update": integers(blocks=(1, 6), left=(0, 127), tile=(1, 3)).map(
        lambda p: {"size": (size := 128 * p["blocks"] + p["left"]), "tile": min(size, 128 * p["tile"])}
    ),
    "streamed_embedding": integers(m=(1, 9), v=(1, 12), d=(1, 200)),
    "streamed_embedding_update": integers(m=(1, 9), v=(1, 12), d=(1, 200)),
    "conv2d_accumulate": convolutions().map(_without_bias),
    "conv2d_backward_input_accumulate": convolutions(),
    "linear_accumulate": integers(m=(1, 10), k=(1, 33), n=(1, 18), bias=(0, 1)),
    "matmul_accumulate": integers(b=(1, 3), m=(1, 10), k=(1, 33), n=(1, 18), ta=(0, 1), tb=(0, 1)),
    "streamed_conv2d_accumulate": streamed_convolutions().map(_without_bias),
    "streamed_conv2d_backward_input_accumulate": streamed_convolutions(sums_over_tiles=True),
    "streamed_linear_accumulate": _streamed_linears(bias=(0, 1)),
    "streamed_linear_backward_input_accumulate": _streamed_linears(),
    "sgd_general": _descents(),
    "adam_factors": integers(beta1_nano=(0, 10**9 - 1), beta2_nano=(0, 10**9 - 1)).flatmap(
        lambda p: amounts("decay_f32", 0.1).map(lambda decay: p | decay)
    ),
    "adam": st.tuples(_elements(), amounts("eps_f32", 1e-2, 1e-8), amounts("decay_f32", 0.1), amounts("clip_f32")).map(
        _joined
    ),
    "count_steps": integers(steps=(1, 2**31 - 1)),
    "reduce": integers(outer=(1, 4), length=(1, 9), inner=(1, 5), kind=(0, 1)),
    "scan": integers(outer=(1, 4), length=(1, 9), inner=(1, 5), kind=(0, 2), reverse=(0, 1)),
    **dict.fromkeys(("shift", "shift_s8"), integers(rows=(1, 5), kept=(1, 9), count=(1, 6))),
    "strided_copy": views(),
    "strided_copy_backward": views(),
    "group_norm": groups().flatmap(lambda p: integers(eps_nano=(1, 10**6)).map(lambda eps: p | eps)),
    "group_norm_backward_input": groups(),
    "group_norm_backward_weight": groups(),
    "lstm": _steps(reverse=(0, 1)),
    "lstm_backward": _steps(reverse=(0, 1), gy=(0, 1), gh=(0, 1), gc=(1, 1)),
    "gru": _steps(reverse=(0, 1), bias=(0, 1)),
    "gru_backward": _steps(reverse=(0, 1), gy=(0, 1), gh=(1, 1)),
    "rnn": _steps(reverse=(0, 1), relu=(0, 1)),
    "rnn_backward": _steps(reverse=(0, 1), relu=(0, 1), gy=(1, 1), gh=(0, 1)),
    "recurrent_weights": _steps(gates=(1, 4), reverse=(0, 1), apart=(0, 1)),
    "batch_norm_eval": integers(n=(1, 4), c=(1, 6), size=(1, 40), eps_nano=(1, 10**6)),
    "batch_norm_eval_backward_input": integers(n=(1, 4), c=(1, 6), size=(1, 40), eps_nano=(1, 10**6)),
    "batch_norm_eval_backward_weight": integers(n=(1, 4), c=(1, 6), size=(4, 40), eps_nano=(1, 10**6)),
    "quantize_s8": _together(_elements(), ranges_s8(), _floats("inverse_f32")).map(_one_zero),
    "levels_s8": _together(_elements(), integers(low=(-128, 0), levels=(1, 127))),
    "dequantize_s8": _together(_elements(), _zeros("zero"), _floats("scale_f32")),
    "conv2d_s8": _together(convolutions_s8(), _zeros("zero_x"), ranges_s8()),
    "linear_s8": _together(
        st.fixed_dictionaries({"m": st.integers(1, 10), "k": st.integers(1, 33), "n": st.integers(1, 18)}), ranges_s8()
    ),
    "avg_pool2d_s8": _together(poolings(), _zeros("zero_x"), ranges_s8(), _floats("scale_f32")),
    "add_s8": _together(
        _elements(), _zeros("zero_a", "zero_b"), ranges_s8(), _floats("scale_a_f32", "scale_b_f32", "inverse_y_f32")
    ),
}
CONFIGURATIONS |= {
    name: _with_descents(CONFIGURATIONS[name])
    for name in ("sgd_update", "conv2d_update", "linear_update", "streamed_conv2d_update", "streamed_linear_update")
}
CONFIGURATIONS["streamed_sgd_update"] = _with_descents(CONFIGURATIONS["streamed_sgd_update"])
