# SPDX-License-Identifier: Apache-2.0
"""What an operator's cost is predicted from: FLOPs, bytes, and how often its innermost loop starts."""

from __future__ import annotations

from typing import NamedTuple

from poet_profiles.errors import UserError
from poet_profiles.operators import ACCUMULATE, BLOCK, OPERATORS, S8, Params, is_winograd, output_extent, parse_params

UNKNOWN = "unknown"
WINOGRAD = ", Winograd"  # ends the name of a model of convolutions by that algorithm


class Features(NamedTuple):
    """Of one call. ``bytes`` are all inputs and outputs; ``loops`` is 0 where one loop runs over everything.

    By Winograd's algorithm ``loops`` are the 4x4 tiles of inputs that it transforms, once for all filters.
    """

    constant: float
    flops: float
    bytes: float
    loops: float


def features(op: str, params: str, model_of: str | None = None, whole: str | None = None) -> Features:
    """Features of a configuration; an operator outside of the vocabulary has them in its key.

    Loops are those of the operator that the model was fitted on, if it is that of another one. Of a part of a ``whole``
    convolution, it is the whole that decides about the algorithm.

    Raises
    ------
    UserError
        If ``params`` are not the operator's.
    """
    try:
        if op in OPERATORS:
            configuration = parse_params(params)
            sizes = OPERATORS[op].sizes(configuration)
            moved = sum(sizes.inputs) + sum(sizes.outputs)
            winograd = is_winograd(parse_params(whole) if whole is not None else configuration)
            loops = (_transformed_tiles if winograd else _loops)(model_of or op, configuration)
            return Features(1.0, float(sizes.flops), float(moved), float(loops))
        pairs = dict(pair.split("=", 1) for pair in params.split(" "))
        return Features(1.0, float(pairs["flops"]), float(pairs["bytes"]), 0.0)
    except (KeyError, ValueError, ZeroDivisionError):
        raise UserError(f"operator {op}: {params!r} are not its parameters; correct the profile or graph") from None


def has_features(params: str) -> bool:
    """Whether a configuration can be predicted: not that of an operator whose FLOPs nobody has counted."""
    return not params.startswith(f"flops={UNKNOWN} ")


def kind(op: str, params: str) -> str:
    """What is predicted by one model: an operator, or its configurations that Winograd's algorithm computes.

    That algorithm takes fewer operations than the FLOPs say, which are those of the direct one for both.
    """
    try:
        return op + WINOGRAD if op in OPERATORS and is_winograd(parse_params(params)) else op
    except (KeyError, ValueError):  # `features` says what is wrong with them
        return op


def _transformed_tiles(op: str, p: Params) -> int:
    """Of 2x2 results each, in every channel that is summed over; for weight gradients in every channel of the input."""
    if op.removesuffix(ACCUMULATE) == "conv2d_backward_input":
        height, width, channels = p["h"], p["w"], p["k"]
    else:
        height = output_extent(p["h"], p["r"], p["sh"], p["ph"])
        width = output_extent(p["w"], p["s"], p["sw"], p["pw"])
        channels = p["c"]
    return p["n"] * -(-height // 2) * -(-width // 2) * channels


def _added_through_a_buffer(p: Params) -> int:
    """Elements of an input gradient that the firmware has no kernel to add to: that takes longer than all else."""
    strides = p["sh"] * p["sw"]
    met = p["n"] * p["c"] * p["h"] * p["w"] * min(p["r"], p["sh"]) * min(p["s"], p["sw"]) // strides
    if strides > 1 or (p["r"], p["s"]) not in ((1, 1), (3, 3)):
        return met
    row = p["w"] if p["r"] > 1 else p["h"] * p["w"]
    return met // row * (row % BLOCK)


def _loops(op: str, p: Params) -> int:
    """Rows of a kernel, rows of a matrix, planes of a batch: what each costs a loop's start, a division or a root."""
    if op == "conv2d_backward_input_accumulate":
        return _added_through_a_buffer(p)
    if op == "conv2d_backward_input":
        return p["n"] * p["c"] * p["h"] * p["w"] * (p["k"] // p["g"]) * p["r"]
    if "r" in p:
        height = output_extent(p["h"], p["r"], p["sh"], p["ph"])
        width = output_extent(p["w"], p["s"], p["sw"], p["pw"])
        if op.endswith(S8):  # a result takes a product and a round more
            return p["n"] * height * width * p.get("k", p["c"])
        windows = p["n"] * height * width * p["r"]
        return windows * p["k"] * (p["c"] // p["g"]) if "g" in p else windows * p["c"]
    if "k" in p:
        return p.get("b", 1) * p["m"] * p["n"]
    if "d0" in p:
        return p["d0"] * p["d1"] * p["d2"]
    if "c" in p:
        return p.get("n", 1) * p["c"]
    return p.get("m", 0)
