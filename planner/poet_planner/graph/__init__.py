# SPDX-License-Identifier: Apache-2.0
"""The costed training graph: what planner and harness share of it (`poet_profiles.graph`), by the planner's name."""

from poet_profiles.graph import Graph, Node, Operation, PageCost, Refusal, Resident, Value
from poet_profiles.graph.file import graph_hash, read_graph, write_graph

__all__ = [
    "Graph",
    "Node",
    "Operation",
    "PageCost",
    "Refusal",
    "Resident",
    "Value",
    "graph_hash",
    "read_graph",
    "write_graph",
]
