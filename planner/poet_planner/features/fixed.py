# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a lowered step give the same for a sample in every epoch."""

from __future__ import annotations

from poet_profiles.graph import Graph, Node
from poet_profiles.graph.sizes import aligned

RANDOM = ("bernoulli",)


def fixed_nodes(graph: Graph) -> frozenset[str]:
    """Nodes that read inputs of the batch, constants and fixed values alone, and change nothing.

    ``graph`` is as lowered for the firmware, with all constants in flash.
    """
    known = {one.id for one in graph.residents if one.kind == "input"} | {one.id for one in graph.constants}
    fixed: set[str] = set()
    for node in graph.nodes:
        if _may_be_fixed(node) and node.operation is not None and known.issuperset(node.operation.operands):
            fixed.add(node.id)
            known.update(node.operation.results)
    return frozenset(fixed)


def _may_be_fixed(node: Node) -> bool:
    """Forward, deterministic, without effect on what lasts, and of the firmware's operators."""
    if node.operation is None or node.operation.op in RANDOM or node.refused is not None:
        return False
    made = {value.id: aligned(value.bytes) for value in node.values}
    return not node.backward and node.recomputable and all(made.get(id) for id in node.operation.results)
