# SPDX-License-Identifier: Apache-2.0
"""What rows of its operands an operator needs for rows of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from poet_profiles.firmware.operators import LOOK_UP, MATMUL, parse_params, positions, way_of
from poet_profiles.firmware.steps import POINTWISE, SPREAD, SUM, WIDEN, steps_in
from poet_profiles.graph import Graph, Node

CONV, POOLS = "conv2d", ("max_pool2d", "max_pool2d_infer", "avg_pool2d")
Params = Mapping[str, int]


class Plane(NamedTuple):
    """Channels, rows and columns of a tensor of one sample."""

    channels: int
    rows: int
    columns: int

    @property
    def bytes(self) -> int:
        return 4 * self.channels * self.rows * self.columns


def _same(p: Params, a: int, b: int) -> tuple[int, int]:
    return a, b


def _window(p: Params, a: int, b: int) -> tuple[int, int]:
    return a * p["sh"] - p["ph"], (b - 1) * p["sh"] - p["ph"] + p["r"]


def _met(p: Params, a: int, b: int) -> tuple[int, int]:
    """Of the gradient by rows of x: rows of y whose windows meet them."""
    return -((p["r"] - 1 - a - p["ph"]) // p["sh"]), (b - 1 + p["ph"]) // p["sh"] + 1


@dataclass(frozen=True)
class ByRows:
    """What an operator's operands and results are, and which rows go together.

    x is the plane before windows and y the one behind them; s is any plane, the same of all; a point is no plane.
    ``sums`` says that the result is a sum over rows of the first plane among the operands.
    """

    operands: str
    results: str
    rows: Callable[[Params, int, int], tuple[int, int]] = _same
    sums: bool = False


AXES = {
    CONV: ByRows("x..", "y", _window),
    "conv2d_relu": ByRows("x..", "y", _window),
    "conv2d_backward_input": ByRows("y.", "x", _met),
    "conv2d_backward_weight": ByRows("yx", "..", _window, sums=True),
    "max_pool2d": ByRows("x", "yy", _window),
    "max_pool2d_infer": ByRows("x", "y", _window),
    "avg_pool2d": ByRows("x", "y", _window),
    "max_pool2d_backward": ByRows("yy", "x", _met),
    "avg_pool2d_backward": ByRows("y", "x", _met),
    LOOK_UP: ByRows("s.", "s"),
    POINTWISE: ByRows("s" * 12, "s"),
    "batch_norm_eval": ByRows("s....", "s"),
    "batch_norm_eval_backward_input": ByRows("s..", "s"),
    MATMUL: ByRows("..", "s"),
    "matmul_accumulate": ByRows(".s.", ".", sums=True),
}


def cut_of(node: Node, planes: Mapping[str, Plane]) -> ByRows | None:
    """The axis of an operator all of whose planes are known."""
    axis = axis_of(node)
    if axis is None or node.operation is None:
        return None
    letters = [*zip(node.operation.operands, axis.operands, strict=False)]
    letters += [*zip(node.operation.results, axis.results, strict=False)]
    return axis if all(id in planes for id, letter in letters if letter != ".") else None


def axis_of(node: Node) -> ByRows | None:
    """What may be done with an operator by rows; None: it stays whole."""
    if node.operation is None or node.operation.op not in AXES:
        return None
    op, p = node.operation.op, parse_params(node.operation.params)
    if op == POINTWISE:
        suits = len(node.operation.results) == 1 and not {step.name for step in steps_in(p)} & {SPREAD, SUM, WIDEN}
    elif op.startswith(CONV):
        # of one sample, neither by an algorithm for whole planes nor as one long row
        direct = (p["n"], p["g"]) == (1, 1) and way_of(p) == "direct" and (p["r"], p["s"]) != (1, 1)
        suits = direct and p["ph"] < p["r"]
        if "input" in op:  # each row of x is met by a window
            suits = suits and p["sh"] <= p["r"] and (p["h"] + 2 * p["ph"] - p["r"]) % p["sh"] == 0
    elif "pool" in op:
        suits = p["n"] == 1 and p["ph"] == 0 and _is_plain_pool(op, p)
    elif op.startswith(MATMUL):
        suits = (p["b"], p["ta"], p["tb"], p["k" if "accumulate" in op else "m"]) == (1, 0, 0, 1)
        suits = suits and node.operation.operands[2:] in ((), node.operation.results)
    else:
        suits = p.get("n", 1) == 1
    return AXES[op] if suits else None


def _is_plain_pool(op: str, p: Params) -> bool:
    """On the way back each row is of one window; places of maxima are whole words."""
    rows, columns = positions(p)
    if "backward" in op and (p["sh"] != p["r"] or rows * p["r"] != p["h"]):
        return False
    if op.endswith("_infer") or op.startswith("avg"):
        return True
    return p["pw"] == 0 and p["c"] * rows * columns % 4 == 0


def planes_of(graph: Graph) -> dict[str, Plane]:
    """Find the plane of each value on which all agree that have windows over it."""
    planes: dict[str, set[Plane]] = {}
    alike: list[list[str]] = []
    for node in graph.nodes:
        axis = axis_of(node)
        if axis is None or node.operation is None:
            continue
        p = parse_params(node.operation.params)
        ids = [*zip(node.operation.operands, axis.operands, strict=False)]
        ids += [*zip(node.operation.results, axis.results, strict=False)]
        alike.append([id for id, letter in ids if letter == "s"])
        for one, letter in ids:
            if letter in "xy":
                planes.setdefault(one, set()).add(_plane(p, letter))
    changed = True
    while changed:
        changed = False
        for same in alike:
            known = set[Plane]().union(*(planes.get(id, ()) for id in same))
            for id in same:
                changed |= not known <= planes.setdefault(id, set())
                planes[id] |= known
    return {id: next(iter(found)) for id, found in planes.items() if len(found) == 1}


def _plane(p: Params, letter: str) -> Plane:
    if letter == "x":
        return Plane(p["c"], p["h"], p["w"])
    return Plane(p.get("k", p["c"]), *positions(p))
