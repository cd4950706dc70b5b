# SPDX-License-Identifier: Apache-2.0
"""Nodes that stand in the place of one that is cut."""

from __future__ import annotations

from collections.abc import Mapping

from poet_profiles.firmware.operators import OPERATORS, params_key
from poet_profiles.graph import Graph, Node, Operation, Value


def op_of(node: Node) -> str:
    """What it computes; empty where only its cost is known."""
    return node.operation.op if node.operation else ""


def plain(node: Node) -> Operation:
    """What an operator of the firmware computes."""
    assert node.operation is not None
    return node.operation


class Maker:
    """Makes them, and knows which ids are values."""

    def __init__(self, graph: Graph) -> None:
        self._known = {value.id for node in graph.nodes for value in node.values}

    def node(
        self,
        like: Node,
        name: str,
        op: str,
        params: Mapping[str, int],
        operands: tuple[str, ...],
        results: tuple[str, ...] = (),
        values: tuple[Value, ...] | None = None,
    ) -> Node:
        """Make one that does a part of what ``like`` does.

        By default it yields one value of its own name.
        """
        sizes, results = OPERATORS[op].sizes(params), results or (name,)
        if values is None:
            values = tuple(Value(id, size) for id, size in zip(results, sizes.outputs, strict=True))
        self._known |= {value.id for value in values}
        return Node(
            name,
            0.0,
            0.0,
            values,
            tuple(dict.fromkeys(id for id in operands if id in self._known)),
            sizes.workspace,
            like.recomputable,
            backward=like.backward,
            operation=Operation(op, params_key(op, params), operands, results),
        )

    def zeros(self, like: Node, name: str, size: int) -> Node:
        """So many bytes of a value that is filled, or added to."""
        return self.node(like, name, "fill", {"size": size // 4, "value_nano": 0}, ())
