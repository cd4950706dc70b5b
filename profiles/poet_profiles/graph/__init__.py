# SPDX-License-Identifier: Apache-2.0
"""The costed training graph, `poet-graph/1`: its data, its file, its checks and sizes (docs/SPEC.md, section 3)."""

from poet_profiles.graph.model import (
    Constant,
    Graph,
    Kept,
    Node,
    Operation,
    PageCost,
    Part,
    Refusal,
    Resident,
    Uses,
    Value,
)

__all__ = ["Constant", "Graph", "Kept", "Node", "Operation", "PageCost", "Part", "Refusal", "Resident", "Uses", "Value"]
