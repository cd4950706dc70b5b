# SPDX-License-Identifier: Apache-2.0
"""What operators on kept tensors consist of, for profiles that have no rows of their own for them (docs/costs.md)."""

from __future__ import annotations

from typing import NamedTuple

from poet_profiles.card.layout import BLOCK_BYTES, card_layout
from poet_profiles.card.record import record_bytes
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import COMMIT, FETCH, STORE
from poet_profiles.operators import ACCUMULATE, OPERATORS, Params, params_key, parse_params, rows_together

UPDATES = ("sgd_update", "conv2d_update", "linear_update")
STREAMED = "streamed_"


class CardWork(NamedTuple):
    """Operators that are computed one after the other, and bytes moved, each transfer from a block's start.

    What is ``beside`` reading is computed while data arrive, on a board whose card transfers by itself.
    """

    operators: tuple[tuple[str, str], ...] = ()
    read_bytes: tuple[int, ...] = ()
    written_bytes: tuple[int, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()


def card_work(graph: Graph, op: str, params: str, overlaps: bool = False) -> CardWork | None:
    """What one call does in ``graph``; None of an operator that does not touch the card."""
    if op == COMMIT:
        return _commit(graph)
    if op in (FETCH, STORE):
        moved = OPERATORS[op].sizes(parse_params(params)).outputs
        return CardWork(read_bytes=moved) if op == FETCH else CardWork(written_bytes=moved)
    configuration = parse_params(params) if op in OPERATORS else {}
    if op.startswith(STREAMED):
        return _streamed(op.removeprefix(STREAMED), configuration, overlaps)
    if op not in UPDATES:
        return None
    outputs = OPERATORS[op].sizes(configuration).outputs
    descents = (("sgd", params_key("sgd", {"size": size // 4})) for size in outputs)
    written = (*_tiles(outputs[0], configuration), *outputs[1:])
    return CardWork(operators=(*_gradients(op, configuration), *descents), written_bytes=written)


def _streamed(whole: str, p: Params, overlaps: bool) -> CardWork:
    """A read a tile, or a row a token, beside the same work on weights in RAM.

    Where that overlaps, a tile that can be read in halves is, but not by an update.

    An update by rows reads a row, writes its next version and reads that again, for each token: no more, where none
    occurs twice.
    """
    sizes = OPERATORS[STREAMED + whole].sizes(p)
    assert sizes.kept_input is not None
    if whole == "embedding":
        return CardWork(read_bytes=(4 * p["d"],) * p["m"])
    if whole == "embedding_update":
        count = min(p["m"], p["v"])
        descents = (("sgd", params_key("sgd", {"size": p["d"]})),) * count
        return CardWork(descents, (4 * p["d"],) * 2 * count, (4 * p["d"],) * count)
    size = sizes.inputs[sizes.kept_input]
    reads = _tiles(size, p)
    if not whole.endswith("_update"):
        halved = p["tile"] % (2 * rows_together(whole, p)) == 0 and reads[0] % (2 * BLOCK_BYTES) == 0
        in_halves = overlaps and len(reads) > 1 and halved
        read = _tiles(size, {**p, "tile": p["tile"] // 2}) if in_halves else reads
        return CardWork(read_bytes=read, beside=(_forward_or_input_gradient(whole, p),))
    descents = tuple(("sgd", params_key("sgd", {"size": part // 4})) for part in sizes.outputs)
    return CardWork(descents, reads, (*reads, *sizes.outputs[1:]), tuple(_gradients(whole, p)))


def _tiles(size: int, p: Params) -> tuple[int, ...]:
    """Bytes of each tile of a tensor of weights."""
    rows = p["k"] if "r" in p else p.get("n", p.get("size", 1))
    return tuple(min(p["tile"], rows - first) * (size // rows) for first in range(0, rows, p["tile"]))


def _forward_or_input_gradient(whole: str, p: Params) -> tuple[str, str]:
    if whole.removesuffix(ACCUMULATE) == "linear_backward_input":
        product = whole.replace("linear_backward_input", "matmul")
        return product, params_key(product, {"b": 1, "m": p["m"], "k": p["n"], "n": p["k"], "ta": 0, "tb": 0})
    return whole, params_key(whole, p)


def _commit(graph: Graph) -> CardWork:
    """Writes the unit of the residents, if there is one, and the record, which it reads back."""
    layout = card_layout(graph)
    if layout is None:
        return CardWork()
    residents = (place.bytes for place in layout.units if not place.id)
    record = record_bytes(layout.bits, layout.checks)
    return CardWork(read_bytes=(record,), written_bytes=(*residents, record))


def _gradients(op: str, p: Params) -> list[tuple[str, str]]:
    """What makes the gradients that an update does not get."""
    if op == "conv2d_update":
        return [("conv2d_backward_weight", params_key("conv2d_backward_weight", p))]
    if op == "linear_update":
        product = {"b": 1, "m": p["n"], "k": p["m"], "n": p["k"], "ta": 1, "tb": 0}
        sums = [("sum_rows", params_key("sum_rows", {"m": p["m"], "n": p["n"]}))] if p["bias"] else []
        return [("matmul", params_key("matmul", product)), *sums]
    return []
