# SPDX-License-Identifier: Apache-2.0
"""Nodes on the way from a traced graph to one for a board, and what both kinds of boards have in common."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from poet_profiles.firmware.operators import INFER
from poet_profiles.graph import Constant, Node, Operation, Refusal, Resident, Value
from poet_profiles.graph.model import I8, I16, U8, number_bytes
from poet_profiles.graph.sizes import aligned
from poet_runtime.traced_graph import Kind, TracedGraph, TracedOperator, TracedResident

NARROW = {torch.uint8: U8, torch.int8: I8, torch.int16: I16}
Placed = TypeVar("Placed", Resident, Constant)


@dataclass(frozen=True)
class Draft:
    """A node whose operands and results still are the traced graph's ids, in the operator's order.

    ``values`` are those that it yields, with their bytes in the arena; ``traced`` is the operator that it stands for,
    or helps.
    """

    id: str
    traced: TracedOperator
    op: str
    params: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    values: tuple[Value, ...]
    workspace_bytes: int
    recomputable: bool
    refused: Refusal | None = None


def without_unread_indices(drafts: list[Draft]) -> list[Draft]:
    """Poolings without the places of their maxima where nothing reads them: in inference, and in a frozen part."""
    read = {operand for draft in drafts for operand in draft.operands}
    return [
        replace(draft, op=f"max_pool2d{INFER}", results=draft.results[:1], values=draft.values[:1])
        if draft.op == "max_pool2d" and draft.results[1] not in read
        else draft
        for draft in drafts
    ]


def nodes_of(traced: TracedGraph, drafts: list[Draft], unread: Iterable[str] = ()) -> list[Node]:
    """Nodes with their edges: from operands, and from operators that have to come before.

    A node that others come after without reading it yields a value of 0 bytes more that says so, `done`; so do the
    nodes ``unread``.
    """
    kept = {value.id for draft in drafts for value in draft.values}
    before = _order_values(drafts)
    waited_for = {id for ids in before.values() for id in ids}.union(map(done, unread))
    return [_node(traced, draft, kept, before.get(draft.id, []), waited_for) for draft in drafts]


def arena_value(traced: TracedGraph, id: str, size: int) -> Value:
    """A value that takes ``size`` bytes of the arena, or none where it is a gradient or the loss in its resident."""
    return Value(id, 0 if id in traced.values and traced.values[id].resident else size)


def placed(residents: Iterable[tuple[TracedResident, int]]) -> tuple[Resident, ...]:
    """Residents and their bytes, one after another, each at a multiple of 4."""
    places = []
    offset = 0
    for resident, size in residents:
        kind = "state" if resident.kind is Kind.BUFFER else resident.kind.value
        dtype = NARROW.get(resident.dtype)
        dtype = dtype if size == number_bytes(dtype) * prod(resident.shape) else None
        places.append(Resident(resident.id, kind, size, offset, resident.shape, dtype=dtype))
        offset += aligned(size)
    return tuple(places)


def behind_one_another(tensors: Iterable[Placed]) -> tuple[Placed, ...]:
    """The same tensors with places in that order, without gaps."""
    places: list[Placed] = []
    offset = 0
    for tensor in tensors:
        places.append(replace(tensor, offset=offset))
        offset += aligned(tensor.bytes)
    return tuple(places)


def in_flash(constants: Mapping[str, NDArray[Any]]) -> tuple[Constant, ...]:
    """Constants one after another, each at a multiple of 4."""
    places = []
    offset = 0
    for id, data in constants.items():
        crc = f"{crc32(data.tobytes()):08x}"
        places.append(Constant(id, data.nbytes, offset, data.shape, crc, {1: I8, 2: I16}.get(data.itemsize)))
        offset += aligned(data.nbytes)
    return tuple(places)


def region_bytes(residents: tuple[Resident, ...]) -> int:
    """Size of the resident region."""
    return max((aligned(r.offset + r.bytes) for r in residents), default=0)


def homes(traced: TracedGraph, ids: Iterable[str]) -> tuple[str, ...]:
    """Where the tensors live: a value that is a gradient or the loss lives in its resident."""
    return tuple((traced.values[id].resident or id) if id in traced.values else id for id in ids)


def _node(traced: TracedGraph, draft: Draft, kept: set[str], before: list[str], waited_for: set[str]) -> Node:
    values = draft.values
    if done(draft.id) in waited_for:
        values = (*values, Value(done(draft.id), 0))
    inputs = dict.fromkeys(operand for operand in draft.operands if operand in kept)
    return Node(
        id=draft.id,
        time_s=0.0,
        energy_j=0.0,
        values=values,
        inputs=(*inputs, *before),
        workspace_bytes=draft.workspace_bytes,
        recomputable=draft.recomputable,
        backward=draft.traced.backward,
        operation=Operation(draft.op, draft.params, homes(traced, draft.operands), homes(traced, draft.results)),
        refused=draft.refused,
    )


def _order_values(drafts: list[Draft]) -> dict[str, list[str]]:
    """By node, the values of 0 bytes that say which nodes have to come before without giving it a tensor."""
    makers = {value.id: draft.id for draft in drafts for value in draft.values}
    nodes = {draft.id for draft in drafts}
    before = {}
    for draft in drafts:
        if draft.id == draft.traced.id:
            given = {makers[operand] for operand in draft.operands if operand in makers}
            before[draft.id] = [done(id) for id in draft.traced.after if id in nodes and id not in given]
    return before


def done(node: str) -> str:
    """Id of the value of 0 bytes that says that a node has been computed."""
    return added(node, "done")


def added(id: str, what: str) -> str:
    """Id of what lowering adds to an operator: no id of the traced graph has two dots in a row."""
    return f"{id}..{what}"
