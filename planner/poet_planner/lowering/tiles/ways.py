# SPDX-License-Identifier: Apache-2.0
"""Along which axes of its tensors an operator is computed tile by tile.

An operator has several ways: a product goes by rows, by columns, or over what it sums. Tiles in order give the bits of
the whole by each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from poet_profiles.firmware.operators import (
    INFER,
    LOOK_UP,
    MATMUL,
    RELU,
    parse_params,
    positions,
    rows_together,
)
from poet_profiles.firmware.steps import POINTWISE, SPREAD, SUM, WIDEN, Step, pointwise_params, steps_in
from poet_profiles.graph import Operation

from poet_planner.lowering.tiles.axes import CONV

ADD_ROWS, SUM_ROWS = "add_rows", "sum_rows"


class Axis(NamedTuple):
    """An axis of a tensor: `outer` times `extent` places, each of `inner` neighbouring numbers."""

    outer: int
    extent: int
    inner: int


SUMMED = Axis(0, 0, 0)  # of a result to which each tile adds


class Way(NamedTuple):
    """One axis of an operator; a tensor without it is read as a whole."""

    operands: tuple[Axis | None, ...]
    results: tuple[Axis | None, ...]
    params: tuple[str, ...]  # those that shrink with a tile
    unit: int = 1  # of how many places each tile, but for the last, is a multiple
    bias: int | None = None  # the tile that has the bias, 0 or -1; None: each has, or its part

    @property
    def extent(self) -> int:
        return next(axis.extent for axis in (*self.operands, *self.results) if axis and axis != SUMMED)


# Of operators that work row by row: the numbers of a row of each operand and result, by a parameter or as they are;
# what has none of a row is read as a whole. The rows are the parameter m.
_ROWS: Mapping[str, tuple[tuple[str | int | None, ...], tuple[str | int, ...]]] = {
    "softmax": (("n",), ("n",)),
    "log_softmax": (("n",), ("n",)),
    "softmax_backward": (("n", "n"), ("n",)),
    "log_softmax_backward": (("n", "n"), ("n",)),
    "layer_norm": (("n", None, None), ("n", 1, 1)),
    "layer_norm_backward_input": (("n", "n", None, 1, 1), ("n",)),
    ADD_ROWS: (("n", None), ("n",)),
    "linear": (("k", None, None), ("n",)),
    "gather": (("v", "d"), ("d",)),
    "gather_backward": (("d", "d"), ("v",)),
}
# Of operators that work channel by channel: x, a tensor of planes; y, one of the planes that a pooling makes; v, a
# number a channel.
_CHANNELS = {
    "batch_norm": ("xvv", "xvv"),
    "batch_norm_backward": ("xxvvv", "xvv"),
    "batch_norm_eval": ("xvvvv", "x"),
    "batch_norm_eval_backward_input": ("xvv", "x"),
    "batch_norm_eval_backward_weight": ("xxvv", "vv"),
    f"max_pool2d{INFER}": ("x", "y"),
    "avg_pool2d": ("x", "y"),
    "avg_pool2d_backward": ("y", "x"),
}


def ways(operation: Operation, place: int, axis: Axis) -> Iterator[Way]:
    """Those in which the tensor at a place, operands first, is cut along an axis."""
    for way in _ways(operation, place, axis):
        if (*way.operands, *way.results)[place] == axis:
            yield way


def axes(operation: Operation, place: int) -> Iterator[Axis]:
    """The axes of its own along which an operator cuts the tensor at a place."""
    for way in _ways(operation, place, None):
        axis = (*way.operands, *way.results)[place]
        if axis and axis != SUMMED:
            yield axis


def tile_params(operation: Operation, way: Way, count: int) -> dict[str, int]:
    """Parameters of a tile of so many places."""
    p = parse_params(operation.params)
    if operation.op == POINTWISE:
        size = p["size"] // way.extent * count
        return pointwise_params(size, [_spread_tile(step, way, count, size) for step in steps_in(p)])
    return {name: value // way.extent * count if name in way.params else value for name, value in p.items()}


def _ways(operation: Operation, place: int, axis: Axis | None) -> Iterator[Way]:
    op, p = operation.op, parse_params(operation.params)
    operands = len(operation.operands)
    if op == POINTWISE and axis:
        if (way := _of_elements(operation, p, axis)) is not None:
            yield way
    elif op in _ROWS:
        yield from _by_rows(op, p, operands, place, axis)
        if op == ADD_ROWS and axis and (axis.outer, axis.extent * axis.inner) == (p["m"], p["n"]):
            yield Way((axis, axis._replace(outer=1)), (axis,), ("n",))
    elif op in _CHANNELS:
        yield _by_channels(op, p)
    elif op == MATMUL:
        yield from _of_product(p)
    elif op == SUM_ROWS:
        yield Way((Axis(1, p["m"], p["n"]),), (SUMMED,), ("m",))
    elif op == LOOK_UP and axis and axis.outer * axis.extent * axis.inner == p["size"]:
        yield Way((None, None), (axis,), ("size",))
    elif op in (CONV, CONV + RELU, f"{CONV}_backward_input", f"{CONV}_backward_weight"):
        yield from _of_convolution(op, p, operands, len(operation.results))


def _of_elements(operation: Operation, p: Mapping[str, int], axis: Axis) -> Way | None:
    """Of steps, where what is spread is so over whole places, or along the axis itself."""
    if axis.outer * axis.extent * axis.inner != p["size"]:
        return None
    operands: list[Axis | None] = [axis] * len(operation.operands)
    for step in steps_in(p):
        if step.name in (SUM, WIDEN):
            return None
        if step.name == SPREAD:
            if not step.sources[0].startswith("x"):
                return None
            times, count = map(int, step.numbers)
            along = axis.extent * (axis.inner // times) if axis.inner % times == 0 else 0
            if axis.inner % (times * count) == 0:
                spread = None
            elif along == count:
                spread = Axis(1, axis.extent, axis.inner // times)
            else:
                return None
            operands[int(step.sources[0][1:])] = spread
    return Way(tuple(operands), (axis,) * len(operation.results), ())


def _spread_tile(step: Step, way: Way, count: int, size: int) -> Step:
    """Of a tile that is as large as what is spread over the whole, nothing is spread."""
    if step.name != SPREAD:
        return step
    axis = way.operands[int(step.sources[0][1:])]
    step = step if axis is None else replace(step, numbers=(step.numbers[0], count * axis.inner))
    return replace(step, name="copy", numbers=()) if step.numbers[1] == size > 1 else step


def _by_rows(op: str, p: Mapping[str, int], operands: int, place: int, axis: Axis | None) -> Iterator[Way]:
    of_operands, of_results = _ROWS[op]
    if p.get("size", 1) != 1:
        return
    lengths = [p[name] if isinstance(name, str) else name for name in (*of_operands[:operands], *of_results)]
    length = lengths[place]
    if length is None:
        return
    axis = axis or Axis(1, p["m"], length)
    if axis.inner % length or axis.outer * axis.extent * axis.inner != p["m"] * length:
        return
    cut = [None if one is None else axis._replace(inner=axis.inner // length * one) for one in lengths]
    yield Way(tuple(cut[:operands]), tuple(cut[operands:]), ("m",))


def _by_channels(op: str, p: Mapping[str, int]) -> Way:
    size = p["size"] if "size" in p else p["h"] * p["w"]
    axes = {"x": Axis(p["n"], p["c"], size), "v": Axis(1, p["c"], 1)}
    if "r" in p:
        rows, columns = positions(p)
        axes["y"] = Axis(p["n"], p["c"], rows * columns)
    operands, results = _CHANNELS[op]
    return Way(tuple(axes[one] for one in operands), tuple(axes[one] for one in results), ("c",))


def _of_product(p: Mapping[str, int]) -> Iterator[Way]:
    """By rows of the first factor, by columns of the second, and over what is summed."""
    b, m, k, n = p["b"], p["m"], p["k"], p["n"]
    a_m, a_k = (Axis(b * k, m, 1), Axis(b, k, m)) if p["ta"] else (Axis(b, m, k), Axis(b * m, k, 1))
    c_k, c_n = (Axis(b * n, k, 1), Axis(b, n, k)) if p["tb"] else (Axis(b, k, n), Axis(b * k, n, 1))
    yield Way((a_m, None), (Axis(b, m, n),), ("m",))
    yield Way((a_k, c_k), (SUMMED,), ("k",))
    yield Way((None, c_n), (Axis(b * m, n, 1),), ("n",))


def _of_convolution(op: str, p: Mapping[str, int], operands: int, results: int) -> Iterator[Way]:
    rows, columns = positions(p)
    n, c, k, g, taps = p["n"], p["c"], p["k"], p["g"], p["r"] * p["s"]
    x, y = Axis(n, c, p["h"] * p["w"]), Axis(n, k, rows * columns)
    forward, weight = op in (CONV, CONV + RELU), op.endswith("weight")
    if g == c == k and g > 1:
        x_w_y, b = (x, Axis(1, g, taps), y), Axis(1, g, 1)
        yield _convolution(forward, weight, (*x_w_y, b), operands, results, ("c", "k", "g"))
    if g > 1:
        return
    by_filters = (None, Axis(1, k, c * taps), y, Axis(1, k, 1))
    by_channels = (x, Axis(k, c, taps), None, None)
    unit = rows_together(f"{CONV}_backward_input", p)
    if k % unit == 0:
        yield _convolution(forward, weight, by_filters, operands, results, ("k",))._replace(unit=unit)
    if c % unit == 0 and not op.endswith(RELU):
        way = _convolution(forward, weight, by_channels, operands, results, ("c",))
        yield way._replace(unit=unit, bias=0 if p["bias"] and (forward or weight) else None)


def _convolution(
    forward: bool,
    weight: bool,
    axes: tuple[Axis | None, Axis, Axis | None, Axis | None],
    operands: int,
    results: int,
    params: tuple[str, ...],
) -> Way:
    """From the axes of x, w, y and the bias: what has none of a sum's is summed."""
    x, w, y, b = axes
    if forward:
        return Way((x, w, b)[:operands], (y or SUMMED,), params)
    if weight:
        return Way((y, x), (w, b)[:results], params)
    return Way((y, w), (x or SUMMED,), params)
