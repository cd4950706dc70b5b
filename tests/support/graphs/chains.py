# SPDX-License-Identifier: Apache-2.0
"""Chains of nodes, whose cheapest schedules are known from the literature."""

from __future__ import annotations

from poet_profiles.graph import Graph, Node, Value


def chain(depth: int) -> Graph:
    """A chain forwards and back, all costs and sizes 1 (word)."""
    forward = [Node(f"a{k}", 1.0, 1.0, (Value(f"a{k}", 4),), (f"a{k - 1}",) if k else ()) for k in range(depth)]
    backward = [
        Node(f"g{k}", 1.0, 1.0, (Value(f"g{k}", 4),), (f"a{k}", f"g{k + 1}") if k < depth - 1 else (f"a{k}",))
        for k in range(depth - 1, -1, -1)
    ]
    return Graph(f"chain of {depth}", (*forward, *backward))
