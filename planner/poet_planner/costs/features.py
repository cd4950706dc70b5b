# SPDX-License-Identifier: Apache-2.0
"""What an operator's cost is predicted from: FLOPs, bytes, and how often its innermost loop starts."""

from __future__ import annotations

from typing import NamedTuple

from poet_profiles.errors import UserError
from poet_profiles.operators import ACCUMULATE, OPERATORS, Params, is_winograd, output_extent, parse_params

UNKNOWN = "unknown"


class Features(NamedTuple):
    """Of one call. ``bytes`` are all inputs and outputs; ``loops`` is 0 where one loop runs over everything."""

    constant: float
    flops: float
    bytes: float
    loops: float


def features(op: str, params: str) -> Features:
    """Features of a configuration; an operator outside of the vocabulary has them in its key.

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
            return Features(1.0, float(sizes.flops), float(moved), float(_loops(op, configuration)))
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
        return f"{op}, Winograd" if op in OPERATORS and is_winograd(parse_params(params)) else op
    except (KeyError, ValueError):  # `features` says what is wrong with them
        return op


def _loops(op: str, p: Params) -> int:
    """Rows of a kernel, rows of a matrix, planes of a batch: what each costs a loop's start, a division or a root."""
    if op.removesuffix(ACCUMULATE) == "conv2d_backward_input":
        return p["n"] * p["c"] * p["h"] * p["w"] * (p["k"] // p["g"]) * p["r"]
    if "r" in p:
        height = output_extent(p["h"], p["r"], p["sh"], p["ph"])
        width = output_extent(p["w"], p["s"], p["sw"], p["pw"])
        windows = p["n"] * height * width * p["r"]
        return windows * p["k"] * (p["c"] // p["g"]) if "g" in p else windows * p["c"]
    if "k" in p:
        return p.get("b", 1) * p["m"] * p["n"]
    if "d0" in p:
        return p["d0"] * p["d1"] * p["d2"]
    if "c" in p:
        return p.get("n", 1) * p["c"]
    return p.get("m", 0)
