# SPDX-License-Identifier: Apache-2.0
"""A chain that pages for little energy and much time, so that a deadline decides between paging and recomputing."""

from __future__ import annotations

from poet_profiles.graph import Graph, Node, PageCost, Value

RAM_BYTES = 16384
DEADLINE_S = 23.75  # 1.25 times the store-all schedule's
PAGE = PageCost(4.0, 0.5, 4.0, 0.5)


def late_chain(layers: int = 5) -> Graph:
    """Forward nodes f of 1 to 3 s and 1 to 4 J, backward nodes b of 2 s and 2 J; each value is 4 KB."""
    forward = [_node(f"f{k}", 1.0 + k % 3, 1.0 + k % 4, *([f"f{k - 1}"] if k else [])) for k in range(layers)]
    backward = [
        _node(f"b{k}", 2.0, 2.0, f"f{k}", *([f"b{k + 1}"] if k < layers - 1 else [])) for k in reversed(range(layers))
    ]
    return Graph("late chain", (*forward, *backward))


def _node(id: str, time_s: float, energy_j: float, *inputs: str) -> Node:
    return Node(id, time_s, energy_j, (Value(id, 4096, PAGE),), inputs)
