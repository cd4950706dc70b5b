# SPDX-License-Identifier: Apache-2.0
"""How many blocks of the card, from the page area's begin on, a schedule may write."""

from __future__ import annotations

from poet_profiles.card.layout import blocks_of
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import calls_of

TRACE_ROWS = 126  # in a block


def page_blocks(graph: Graph, schedule: Schedule) -> int:
    """Those of the pages, and after them those of a trace."""
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    paged = {step.target for step in schedule.steps if step.do is Action.PAGE_OUT}
    return sum(blocks_of(sizes[value]) for value in paged) + -(-len(calls_of(graph, schedule)) // TRACE_ROWS)
