# SPDX-License-Identifier: Apache-2.0
"""Chains of nodes, whose schedules are known from the literature."""

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


def training_chain(depth: int) -> Graph:
    """As `chain`, but that a backward node reads what its forward node reads, and not what that yields."""
    forward = [_unit(f"f{k}", *([f"f{k - 1}"] if k else [])) for k in range(depth)]
    backward = [
        _unit(f"b{k}", *([f"f{k - 1}"] if k else []), *([f"b{k + 1}"] if k < depth - 1 else []), backward=True)
        for k in range(depth - 1, -1, -1)
    ]
    return Graph(f"training chain of {depth}", (*forward, *backward))


def block_chain(depth: int, saved_words: int = 1) -> Graph:
    """A chain of blocks of two forward nodes: w, which the backward node reads, and x, which the next block reads.

    w yields a second value for x, so that only x is a cut. Only w and the backward nodes cost anything: a unit each.
    """
    nodes: list[Node] = []
    for k in range(depth):
        values = (Value(f"w{k}", 4 * saved_words), Value(f"t{k}", 4))
        nodes.append(Node(f"w{k}", 1.0, 1.0, values, (f"x{k}",) if k else ()))
        nodes.append(Node(f"x{k + 1}", 0.0, 0.0, (Value(f"x{k + 1}", 4),), (f"w{k}", f"t{k}")))
    nodes += [
        _unit(f"b{k}", f"w{k}", f"b{k + 1}" if k < depth - 1 else f"x{depth}", backward=True)
        for k in range(depth - 1, -1, -1)
    ]
    return Graph(f"chain of {depth} blocks", tuple(nodes))


def _unit(id: str, *inputs: str, backward: bool = False) -> Node:
    return Node(id, 1.0, 1.0, (Value(id, 4),), inputs, backward=backward)
