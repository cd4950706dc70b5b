# SPDX-License-Identifier: Apache-2.0
"""Operators that read a large tensor from the card themselves, in place of a fetch that needs room for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, lcm
from typing import NamedTuple

from poet_profiles.card.layout import BLOCK_BYTES
from poet_profiles.firmware.operators import ACCUMULATE, parse_params, rows_together
from poet_profiles.graph import Kept, Operation

from poet_planner.graph.streaming import Streaming

READERS = ("conv2d", "conv2d_backward_input", "linear", "matmul", "embedding")
"""Some add to a sum so far as well."""


class Streamed(NamedTuple):
    """An operator with its parameters, and the place of the tensor on the card among its operands."""

    op: str
    params: dict[str, int]
    place: int


def streamed(operation: Operation, kept: Mapping[str, Kept], streaming: Streaming) -> Streamed | None:
    """What reads its weights tile by tile and gives the same bits; None where there is nothing, or it is not worth it.

    ``operation`` reads parameters; ``kept`` are the tensors on the card, by id.
    """
    op = operation.op.removesuffix(ACCUMULATE)
    if streaming.above_bytes is None or op not in READERS:
        return None
    form = _form(op, parse_params(operation.params))
    if form is None:
        return None
    tensor = kept.get(operation.operands[form.place])
    if tensor is None or tensor.bytes <= streaming.above_bytes:
        return None
    if form.op == "streamed_embedding":
        return form if tensor.rows > 1 or 4 * form.params["d"] % BLOCK_BYTES == 0 else None
    rows = form.params[_rows(form.op)]
    together = rows_together(op, form.params)
    tile = tile_rows(rows, tensor.bytes // rows, streaming.tile_bytes, together, halves=True)
    if 2 * tile >= rows:
        return None
    return form._replace(op=form.op + operation.op.removeprefix(op), params={**form.params, "tile": tile})


def streamed_update(op: str, params: dict[str, int], size: int, streaming: Streaming) -> bool:
    """Whether an update with such parameters is to read the present weights, of so many bytes, tile by tile."""
    if streaming.above_bytes is None or size <= streaming.above_bytes:
        return False
    rows = params[_rows(op)]
    return 2 * params["tile"] < rows


def tile_rows(rows: int, row_bytes: int, tile_bytes: int, together: int = 1, halves: bool = False) -> int:
    """How many rows are held at a time: as the bytes allow, and whole blocks of the card, or all rows.

    They are a multiple of those that are computed ``together``. With ``halves`` half of them are so, too, if that is
    possible in the same bytes.
    """
    if rows * row_bytes <= tile_bytes:
        return rows
    whole = lcm(BLOCK_BYTES // gcd(BLOCK_BYTES, row_bytes), together)
    fitting = tile_bytes // row_bytes
    step = 2 * whole if halves and fitting >= 2 * whole else whole
    return min(rows, max(whole, fitting // step * step))


def _form(op: str, p: dict[str, int]) -> Streamed | None:
    """None for a product whose first factor is transposed, or of a batch: it is no layer's."""
    if op != "matmul":
        return Streamed(f"streamed_{op}", p, 0 if op == "embedding" else 1)
    if p["b"] != 1 or p["ta"]:
        return None
    if p["tb"]:
        return Streamed("streamed_linear", {"m": p["m"], "k": p["k"], "n": p["n"], "bias": 0}, 1)
    return Streamed("streamed_linear_backward_input", {"m": p["m"], "k": p["n"], "n": p["k"]}, 1)


def _rows(op: str) -> str:
    return "k" if "conv2d" in op else "size" if "sgd" in op else "n"
