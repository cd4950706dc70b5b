# SPDX-License-Identifier: Apache-2.0
"""Kept tensors that lie by rows (docs/SPEC.md, section 3): who may read and write them."""

from __future__ import annotations

from poet_profiles.card.layout import BLOCK_BYTES
from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.graph.kept import BATCH_KINDS
from poet_profiles.graph.model import Graph, Kept, Node


def check_rows(graph: Graph) -> None:
    """Whether each tensor is divided as those operators need it that read and write it."""
    for kept in graph.kept:
        if kept.rows < 1 or kept.bytes % kept.rows:
            raise FaultError(f"kept tensor {kept.id}: {kept.bytes} bytes are not {kept.rows} equal rows")
        if kept.rows > 1 and kept.kind in BATCH_KINDS:
            raise FaultError(f'kept tensor {kept.id}: an {kept.kind} does not lie by rows; leave "rows" out')
    tensors = {kept.id: kept for kept in graph.kept}
    for node in graph.nodes:
        operation = node.operation
        if operation is None or operation.op not in OPERATORS or tensors.keys().isdisjoint(_ids(node)):
            continue
        try:
            rows = OPERATORS[operation.op].sizes(parse_params(operation.params)).kept_rows or 1
        except ValueError as error:
            raise FaultError(f"node {node.id}: {operation.op} {operation.params}: {error}") from None
        for id in operation.operands:
            if id in tensors and not (tensors[id].rows == rows or _are_blocks(tensors[id], rows)):
                raise FaultError(_mismatch(node, tensors[id], rows))
        for id in operation.results:
            if id in tensors and tensors[id].rows != rows:
                raise FaultError(_mismatch(node, tensors[id], rows))


def _ids(node: Node) -> tuple[str, ...]:
    return (*node.operation.operands, *node.operation.results) if node.operation else ()


def _are_blocks(kept: Kept, rows: int) -> bool:
    """Whether rows can be read of a tensor that lies as a whole."""
    return kept.rows == 1 and kept.bytes % (rows * BLOCK_BYTES) == 0


def _mismatch(node: Node, kept: Kept, rows: int) -> str:
    return f'node {node.id}: {kept.id} must have "rows": {rows} here, it has {kept.rows}'
