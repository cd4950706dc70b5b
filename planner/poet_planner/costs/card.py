# SPDX-License-Identifier: Apache-2.0
"""What operators on kept tensors consist of, for profiles that have no rows of their own for them (docs/costs.md)."""

from __future__ import annotations

from typing import NamedTuple

from poet_profiles.card.layout import BLOCK_BYTES, card_layout
from poet_profiles.card.record import record_bytes
from poet_profiles.firmware.compiled_operators import blocks
from poet_profiles.firmware.operators import (
    ACCUMULATE,
    DESCENT_PARAMS,
    OPERATORS,
    Params,
    params_key,
    parse_params,
    rows_together,
)
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS, COMMIT, FETCH, STORE

UPDATES = ("sgd_update", "conv2d_update", "linear_update")
STREAMED = "streamed_"


class WeightTile(NamedTuple):
    """Some rows of the weights of an operator: its parameters with ``whole`` of them, and with these alone."""

    op: str
    whole: str
    params: str


class CardWork(NamedTuple):
    """What is computed one after the other, and bytes moved, each transfer from a block's start.

    Parts are tiles of weights. If ``arriving`` is not None, the read that many places after a part's own arrives while
    the part is computed, on a board whose card transfers by itself.
    """

    operators: tuple[tuple[str, str], ...] = ()
    read_bytes: tuple[int, ...] = ()
    written_bytes: tuple[int, ...] = ()
    parts: tuple[WeightTile, ...] = ()
    arriving: int | None = None


def card_work(
    graph: Graph, op: str, params: str, overlaps: bool = False, source: str = "", changed: str = ""
) -> CardWork | None:
    """What one call does in ``graph``, with its first operand and result; None of one that does not touch the card."""
    if op == COMMIT:
        return _commit(graph)
    if op in (FETCH, STORE):
        moved = OPERATORS[op].sizes(parse_params(params)).outputs
        return CardWork(read_bytes=(*_check(graph, source), *moved)) if op == FETCH else CardWork(written_bytes=moved)
    configuration = parse_params(params) if op in OPERATORS else {}
    if op.startswith(STREAMED):
        in_ram = any(resident.id == changed for resident in graph.residents)
        return _streamed(op.removeprefix(STREAMED), configuration, overlaps, in_ram)
    if op not in UPDATES:
        return None
    outputs = _weights(OPERATORS[op].sizes(configuration).outputs, configuration)
    descents = (_descent(size, configuration) for size in outputs)
    written = (*_tiles(outputs[0], configuration), *outputs[1:]) * _tensors(configuration)
    others = (*_bias_gradient(op, configuration), *descents)
    return CardWork(others, written_bytes=written, parts=_parts(op, configuration, configuration.get("tile", 1)))


def _check(graph: Graph, source: str) -> tuple[int, ...]:
    """What is read before a tensor to know its check: a block, if it is of a batch."""
    return (BLOCK_BYTES,) if source in {kept.id for kept in graph.kept if kept.kind in BATCH_KINDS} else ()


def _streamed(whole: str, p: Params, overlaps: bool, in_ram: bool) -> CardWork:
    """A read a tile, or a row a token, and what is computed on it.

    Where the card transfers by itself, an update's tile arrives while its gradient is computed. The tiles of others do
    so if they can be read in halves: then a half arrives while the one before is computed on.

    An update by rows reads a row, writes its next version and reads that again, for each token: no more, where none
    occurs twice. An update's parameter may be ``in_ram``, and its states alone on the card.
    """
    sizes = OPERATORS[STREAMED + whole].sizes(p)
    assert sizes.kept_input is not None
    if whole == "embedding":
        return CardWork(read_bytes=(4 * p["d"],) * p["m"])
    if whole == "embedding_update":
        count = min(p["m"], p["v"])
        descents = (_descent(4 * p["d"], p),) * count
        return CardWork(descents, (4 * p["d"],) * 2 * count, (4 * p["d"],) * count)
    size = sizes.inputs[sizes.kept_input]
    reads = _tiles(size, p)
    if whole.endswith("_update"):
        descents = tuple(_descent(part, p) for part in _weights(sizes.outputs, p))
        others = (*_bias_gradient(whole, p), *descents)
        away = _tensors(p) - in_ram
        written = (*reads, *_weights(sizes.outputs, p)[1:]) * away
        return CardWork(others, reads * away, written, _parts(whole, p, p["tile"]), 0 if overlaps else None)
    halved = p["tile"] % (2 * rows_together(whole, p)) == 0 and reads[0] % (2 * BLOCK_BYTES) == 0
    if overlaps and len(reads) > 1 and halved:
        half = p["tile"] // 2
        return CardWork(read_bytes=_tiles(size, {**p, "tile": half}), parts=_parts(whole, p, half), arriving=1)
    return CardWork(read_bytes=reads, parts=_parts(whole, p, p["tile"]))


def _descent(size: int, p: Params) -> tuple[str, str]:
    """Of so many bytes, as the update's parameters say."""
    general = any(p.get(name) for name in DESCENT_PARAMS)
    op = "adam" if p.get("adam") else "sgd_general" if general else "sgd"
    return op, params_key(op, {**p, "size": size // 4})


def _tensors(p: Params) -> int:
    """How many an update writes for each parameter: its states, too."""
    return 3 if p.get("adam") else 2 if p.get("momentum_nano") else 1


def _weights(outputs: tuple[int, ...], p: Params) -> tuple[int, ...]:
    """Of an update's outputs those that are no states."""
    return outputs[: len(outputs) // _tensors(p)]


def _rows(p: Params) -> int:
    """Of a tensor of weights."""
    return p["k"] if "r" in p else p.get("n", p.get("size", 1))


def _tiles(size: int, p: Params) -> tuple[int, ...]:
    """Bytes of each tile of a tensor of weights."""
    rows = _rows(p)
    return tuple(min(p["tile"], rows - first) * (size // rows) for first in range(0, rows, p["tile"]))


def _parts(op: str, p: Params, tile: int) -> tuple[WeightTile, ...]:
    """What is computed on each tile. An input gradient adds what comes from the second one on to what is there."""
    if op == "sgd_update":
        return ()
    computed, whole, along = _computed(op, p)
    later = computed if "backward_input" not in op or computed.endswith(ACCUMULATE) else computed + ACCUMULATE
    rows, key = _rows(p), params_key(computed, whole)
    return tuple(
        WeightTile(
            later if first else computed,
            key,
            params_key(computed, _cut(computed, whole, along, min(tile, rows - first))) if tile < rows else key,
        )
        for first in range(0, rows, tile)
    )


def _computed(op: str, p: Params) -> tuple[str, dict[str, int], str]:
    """The operator that takes all weights at once, or makes their gradient; and which parameter counts their rows."""
    if op == "conv2d_update":
        return "conv2d_backward_weight", dict(p), "k"
    if op == "linear_update":
        return "matmul", {"b": 1, "m": p["n"], "k": p["m"], "n": p["k"], "ta": 1, "tb": 0}, "m"
    if op.removesuffix(ACCUMULATE) == "linear_backward_input":
        product = {"b": 1, "m": p["m"], "k": p["n"], "n": p["k"], "ta": 0, "tb": 0}
        return op.replace("linear_backward_input", "matmul"), product, "k"
    return op, dict(p), "k" if "r" in p else "n"


def _cut(op: str, whole: Params, along: str, rows: int) -> dict[str, int]:
    """Of a convolution, the firmware computes four filters as quickly as fewer, unless they are pointwise."""
    if whole.get("g", 1) > 1:
        groups = max(1, whole["g"] * rows // whole["k"])
        return {**whole, along: rows, "g": groups, "c": whole["c"] // whole["g"] * groups}
    if op.removesuffix(ACCUMULATE) == "conv2d" and whole["r"] * whole["s"] > 1:
        tile = blocks().tile
        rows = -(-rows // tile) * tile
    return {**whole, along: rows}


def _commit(graph: Graph) -> CardWork:
    """Writes the unit of the residents, if there is one, and the record, which it reads back."""
    layout = card_layout(graph)
    if layout is None:
        return CardWork()
    residents = (place.bytes for place in layout.units if not place.id)
    record = record_bytes(layout.bits, layout.checks)
    return CardWork(read_bytes=(record,), written_bytes=(*residents, record))


def _bias_gradient(op: str, p: Params) -> list[tuple[str, str]]:
    """Where the operator that makes the gradient of the weights does not make it."""
    if op == "linear_update" and p["bias"]:
        return [("sum_rows", params_key("sum_rows", {"m": p["m"], "n": p["n"]}))]
    return []
