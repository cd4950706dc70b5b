# SPDX-License-Identifier: Apache-2.0
"""Costs for a traced graph that no profile knows."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph, PageCost


def costed(graph: Graph) -> Graph:
    """Costs in proportion to bytes; recomputing and paging cost about the same."""
    nodes = []
    for node in graph.nodes:
        energy_j = 1e-6 * (1 + sum(value.bytes for value in node.values))
        values = tuple(
            replace(value, page=PageCost(*(4e-7 * value.bytes,) * 4) if value.bytes else None) for value in node.values
        )
        nodes.append(replace(node, time_s=energy_j, energy_j=energy_j, values=values, workspace_bytes=0))
    return replace(graph, nodes=tuple(nodes))
