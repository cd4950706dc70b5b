# SPDX-License-Identifier: Apache-2.0
"""A lowered step whose operators compute in place wherever they may (docs/SPEC.md, section 3).

An operator may take over an input that nothing else needs. To do so is never worse: where a plan would keep the input
to compute the operator again, it can keep the result instead, which is as large.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from poet_profiles.firmware.operators import OPERATORS, taken_over
from poet_profiles.graph import Graph, Node


def with_taking_over(graph: Graph) -> Graph:
    """The same step, in which the first result of an operator takes over an operand, the first of those that it may."""
    uses = Counter(id for node in graph.nodes for id in node.inputs)
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values if uses[value.id] == 1}

    def place_of(node: Node) -> dict[str, str]:
        if node.operation is None or node.operation.op not in OPERATORS:
            return {}
        operands, results = node.operation.operands, node.operation.results
        own = {value.id: value.bytes for value in node.values}
        for place in taken_over(node.operation.op, node.operation.params):
            only = operands.count(operands[place]) == 1 and operands[place] in node.inputs
            if only and results[0] in own and sizes.get(operands[place]) == own[results[0]]:
                return {results[0]: operands[place]}
        return {}

    return replace(graph, nodes=tuple(replace(node, takes_over=place_of(node)) for node in graph.nodes))


def without_taking_over(graph: Graph) -> Graph:
    """The same step with a place of its own for each result, as the passes make it that rewrite nodes."""
    return replace(graph, nodes=tuple(replace(node, takes_over={}) for node in graph.nodes))
