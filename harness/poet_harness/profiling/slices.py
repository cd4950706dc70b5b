# SPDX-License-Identifier: Apache-2.0
"""The largest part of a configuration that fits a board's RAM, where the whole does not.

Work is cut along an axis along which it grows in proportion: the batch first, then rows, then channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, lcm

from poet_profiles.firmware.operators import ACCUMULATE, OPERATORS, RECURRENT, is_winograd, rows_together
from poet_profiles.firmware.steps import POINTWISE, SPREAD, steps_in
from poet_profiles.graph.sizes import aligned

from .configurations import PAGE_GRANULE

Axis = tuple[str, ...]
"""Parameters that are cut together, each in proportion to the first."""

_AXES: dict[str, tuple[Axis, ...]] = {
    "linear": (("m",), ("n",)),
    "linear_s8": (("m",), ("n",)),
    "linear_update": (("n",), ("m",)),
    "matmul": (("b",), ("m",), ("n",)),
    "max_pool2d": (("n",), ("c",)),
    "max_pool2d_infer": (("n",), ("c",)),
    "max_pool2d_s8": (("n",), ("c",)),
    "max_pool2d_backward": (("n",), ("c",)),
    "avg_pool2d": (("n",), ("c",)),
    "avg_pool2d_s8": (("n",), ("c",)),
    "avg_pool2d_backward": (("n",), ("c",)),
    "batch_norm": (("n",), ("size",)),
    "batch_norm_backward": (("n",), ("size",)),
    "batch_norm_update": (("c",),),
    "batch_norm_eval": (("n",), ("size",)),
    "batch_norm_eval_backward_input": (("n",), ("size",)),
    "batch_norm_eval_backward_weight": (("n",), ("size",)),
    "group_norm": (("n",), ("size",)),
    "group_norm_backward_input": (("n",), ("size",)),
    "group_norm_backward_weight": (("n",), ("size",)),
    **dict.fromkeys(RECURRENT, (("s",), ("n",))),
    # The table is what does not fit. Its gradient is written whole, however few rows are looked up.
    "embedding": (("d",), ("m",)),
    "embedding_backward": (("d",),),
    "gather": (("m",), ("size",), ("d",)),
    "gather_backward": (("m",), ("size",)),
    # Along the rows of weights, so that computing and transfers shrink alike.
    "streamed_conv2d": (("k",), ("c",)),
    "streamed_conv2d_backward_input": (("k",), ("c",)),
    "streamed_conv2d_update": (("k",), ("c",)),
    "streamed_linear": (("n",),),
    "streamed_linear_backward_input": (("n",),),
    "streamed_linear_update": (("n",),),
    "streamed_sgd_update": (("size",),),
    "streamed_embedding": (("m",),),
    "streamed_embedding_update": (("m",),),
}
TILED = {"sgd_update": "size", "conv2d_update": "k", "linear_update": "n"}
TILED |= {op: axes[0][0] for op, axes in _AXES.items() if op.startswith("streamed_") and "embedding" not in op}
TILED |= {f"{op}{ACCUMULATE}": along for op, along in TILED.items() if f"{op}{ACCUMULATE}" in OPERATORS}
"""Along which parameter tiles are cut: no tile is longer."""
_ROWS: tuple[Axis, ...] = (("m",), ("size",))
_PLAIN_CONVOLUTION: tuple[Axis, ...] = (("n",), ("k",), ("c",))
_GROUPED_CONVOLUTION: tuple[Axis, ...] = (("n",), ("g", "c", "k"))


def ram_bytes(op: str, params: Mapping[str, int]) -> int:
    """Bytes of all inputs, outputs and workspace, each rounded up to 4; without what lies on the card."""
    return sum(aligned(size) for size in OPERATORS[op].sizes(params).ram)


def slices(op: str, params: Mapping[str, int], limit_bytes: int) -> Iterator[tuple[float, dict[str, int]]]:
    """Parts of a configuration whose operands fit ``limit_bytes``, the best first, each with its fraction of the whole.

    The whole comes first if it fits, then the largest parts along one axis, then parts along all of them. Smaller ones
    follow in case the board has less room than it says.
    """
    if ram_bytes(op, params) <= limit_bytes:
        yield 1.0, dict(params)
    axes = _axes(op, params)
    for together in (*((axis,) for axis in axes), axes):
        yield from _parts(op, params, together, limit_bytes)


def page_slice(size: int, limit_bytes: int) -> int:
    """The most bytes of a page, in whole blocks, for which the RAM has a buffer; 0 if for none.

    A page is longer than its slice by more transfers of the same buffer, one after the other.
    """
    return size if size <= limit_bytes else limit_bytes // PAGE_GRANULE * PAGE_GRANULE


def _parts(
    op: str, params: Mapping[str, int], axes: Sequence[Axis], limit_bytes: int
) -> Iterator[tuple[float, dict[str, int]]]:
    """Ever smaller parts, the axes cut to a single one each in turn; none that would be computed otherwise."""
    cut = dict(params)
    fraction = 1.0
    for axis in axes:
        leader = axis[0]
        while cut[leader] > 1:
            smaller = cut[leader] // 2
            smaller_cut = _cut(op, cut, axis, smaller)
            if is_winograd(smaller_cut) != is_winograd(params):
                break
            fraction *= smaller / cut[leader]
            cut = smaller_cut
            if ram_bytes(op, cut) <= limit_bytes:
                grown = _grow(op, cut, axis, 2 * smaller, limit_bytes)
                yield fraction * grown[leader] / smaller, grown


def _axes(op: str, params: Mapping[str, int]) -> tuple[Axis, ...]:
    op = op.removesuffix(ACCUMULATE)
    if op.startswith("conv2d"):
        return _GROUPED_CONVOLUTION if params["g"] > 1 else _PLAIN_CONVOLUTION
    if op == POINTWISE and any(step.name == SPREAD for step in steps_in(params)):
        return ()  # what is spread has a length of its own
    if op.startswith("strided_copy"):
        # Along the longest stride first: that shortens the source as well.
        outermost_first = sorted(range(4), key=lambda index: -abs(params[f"s{index}"]))
        return tuple((f"d{index}",) for index in outermost_first)
    if op.startswith("streamed_conv2d") and params["g"] > 1:
        return _GROUPED_CONVOLUTION[1:]
    return tuple(axis for axis in _AXES.get(op, _ROWS) if axis[0] in params)


def _cut(op: str, params: Mapping[str, int], axis: Axis, extent: int) -> dict[str, int]:
    leader = params[axis[0]]
    cut = {**params, **{name: params[name] // leader * extent for name in axis}}
    if op in TILED:
        cut["tile"] = _tile(op, cut, params["tile"])
    if op.startswith("strided_copy"):
        cut["size"] = cut["offset"] + 1 + sum((cut[f"d{index}"] - 1) * max(0, cut[f"s{index}"]) for index in range(4))
    return cut


def _tile(op: str, cut: Mapping[str, int], whole: int) -> int:
    """As many rows at a time as the whole has, but no more than there are; streamed ones are whole blocks, or all."""
    rows = cut[TILED[op]]
    sizes = OPERATORS[op].sizes({**cut, "tile": rows})
    if sizes.kept_input is None:
        return min(whole, rows)
    blocks = lcm(PAGE_GRANULE // gcd(PAGE_GRANULE, sizes.inputs[sizes.kept_input] // rows), rows_together(op, cut))
    return min(rows, max(blocks, whole // blocks * blocks))


def _grow(op: str, fits: Mapping[str, int], axis: Axis, too_large: int, limit_bytes: int) -> dict[str, int]:
    """The largest extent between one that fits and one that does not."""
    low, high = fits[axis[0]], too_large
    while high - low > 1:
        middle = (low + high) // 2
        if ram_bytes(op, _cut(op, fits, axis, middle)) <= limit_bytes:
            low = middle
        else:
            high = middle
    return _cut(op, fits, axis, low)
