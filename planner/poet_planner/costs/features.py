# SPDX-License-Identifier: Apache-2.0
"""What a configuration's cost is predicted from: FLOPs, bytes, and how often its loops run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OF_BANDS, OPERATORS, Params, of_band, parse_params, positions
from poet_profiles.firmware.steps import BLOCK, POINTWISE, steps_in

from poet_planner.costs.loops import loops

UNKNOWN = "unknown"
POOL = "max_pool2d"  # begins the name of those whose bands go plane by plane; the way forward copies the whole's places
MOVED, MANY = "moved", 64  # elements of a row of a shift


@dataclass(frozen=True)
class Features:
    """Of one call: ``bytes`` of all inputs and outputs, and what is counted of its loops.

    What computes nothing copies: it reads as many bytes as it writes, however large the tensor is that has them.
    ``way`` is that by which it is computed, where there are several: each has a model of its own. Ways by ``products``
    are similar. What goes plane by plane begins ``calls`` times.
    """

    flops: float
    bytes: float
    loops: Mapping[str, float] = field(default_factory=dict)
    way: str = ""
    products: bool = False
    calls: int = 1


def features(op: str, params: str, fpu: bool = False, whole: str | None = None) -> Features:
    """Features of a configuration; an operator outside of the vocabulary has them in its key.

    Of a part of a ``whole`` convolution, it is the whole that decides about the algorithm.

    Raises
    ------
    UserError
        If ``params`` are not the operator's.
    """
    try:
        if op not in OPERATORS:
            pairs = dict(pair.split("=", 1) for pair in params.split(" "))
            return Features(float(pairs["flops"]), float(pairs["bytes"]))
        given = parse_params(params)
        op, p = of_band(op, given) if op in OF_BANDS else (op, given)
        if op == POINTWISE:
            return _of_steps(p)
        sizes = OPERATORS[op].sizes(p)
        written = sum(sizes.outputs)
        work = float(sizes.flops), float(written + (sum(sizes.inputs) if sizes.flops else written))
        counted = loops(op, p, fpu, parse_params(whole) if whole is not None else None)
        if counted is None:
            return Features(*work, {"loops": float(_loops(op, p))}, MOVED if _moves(op, p) else "")
        if op.startswith(POOL) and "of" in given:
            places = given["c"] * given["of"] * positions(p)[1] if op == POOL else 0
            return Features(*work, counted.counts + Counter(places=places), counted.way, calls=given["c"])
        return Features(*work, counted.counts, counted.way, counted.products)
    except (KeyError, ValueError, ZeroDivisionError):
        raise UserError(f"operator {op}: {params!r} are not its parameters; correct the profile or graph") from None


def _of_steps(p: Params) -> Features:
    """Elements by step, and how often a step is begun: once a block, or once where no register is used."""
    sizes, size, steps = OPERATORS[POINTWISE].sizes(p), p["size"], list(steps_in(p))
    blocks = -(-size // BLOCK) if sizes.workspace else 1
    counts = Counter({"steps": blocks * len(steps)})
    for step in steps:
        counts[step.name] += size
    return Features(float(sizes.flops), float(sum(sizes.inputs) + sum(sizes.outputs)), counts)


def has_features(params: str) -> bool:
    """Whether a configuration can be predicted: not that of an operator whose FLOPs nobody has counted."""
    return not params.startswith(f"flops={UNKNOWN} ")


def _loops(op: str, p: Params) -> int:
    """Rows of a matrix, planes of a batch, results on int8: what each costs a loop's start, a division or a root.

    Of a sum of rows, its additions: the first row is copied.
    """
    if op == "sum_rows":
        return (p["m"] - 1) * p["n"]
    if "r" in p:
        rows, columns = positions(p)
        return p["n"] * rows * columns * p.get("k", p["c"])
    if "k" in p:
        return p["m"] * p["n"]
    if "d0" in p:
        return p["d0"] * p["d1"] * p["d2"]
    if "c" in p:
        return p.get("n", 1) * p["c"]
    return p.get("m", p.get("rows", 0))


def _moves(op: str, p: Params) -> bool:
    """Whether rows are long enough for the firmware's loop that moves four elements at a time."""
    return op == "shift" and p["kept"] + p["count"] >= MANY
