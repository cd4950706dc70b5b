# SPDX-License-Identifier: Apache-2.0
"""How much RAM a graph takes at least."""

from __future__ import annotations

from poet_profiles.graph.model import Graph


def aligned(size: int) -> int:
    """Bytes that a tensor occupies in the arena: its own, rounded up to whole 4-byte words."""
    return -(-size // 4) * 4


def constant_bytes(graph: Graph) -> int:
    """Size of the table of constants in flash."""
    return max((aligned(constant.offset + constant.bytes) for constant in graph.constants), default=0)


def smallest_ram_bytes(graph: Graph) -> int:
    """RAM without which no schedule exists: residents, and the largest node's operands, results and workspace."""
    return graph.resident_bytes + max(needed_bytes(graph), default=0)


def needed_bytes(graph: Graph) -> list[int]:
    """RAM that each node takes at least while it is computed, beside the residents: operands, results, workspace."""
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    return [
        aligned(node.workspace_bytes)
        + sum(sizes[id] for id in node.inputs)
        + sum(sizes[value.id] for value in node.values if value.id not in node.takes_over)
        for node in graph.nodes
    ]
