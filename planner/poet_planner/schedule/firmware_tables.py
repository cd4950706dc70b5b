# SPDX-License-Identifier: Apache-2.0
"""RAM that the firmware's schedule runner takes for itself: its tables, beside residents and arena.

The board file's ``ram_reserved_bytes`` is what the firmware takes whatever it runs. Tables grow with the plan:
RAM budget + tables + reserve are the board's RAM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from poet_profiles.card.layout import card_layout
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule

from poet_planner.schedule.extraction import Extraction, plans_beside, stored_bytes
from poet_planner.schedule.inference import Inference, ram_bytes

# sizeof in firmware/include/poet, on a board with 32-bit words; a test asks a compiler.
LIVE_ENTRY_BYTES = 12  # poet_block
PAGE_ENTRY_BYTES = 8  # poet_page
CHECK_ENTRY_BYTES = 12  # poet_check
HOME_WORD_BYTES = 8  # two words, for 32 bits of a record

# How many more blocks an optimised schedule may hold at once than the one that stores all: it holds fewer, as a rule,
# but may make a value again beside others.
MORE_LIVE = 16


@dataclass(frozen=True)
class FirmwareTables:
    """Lengths of the tables: blocks of the arena that are live at once, values that are paged, checks and bits of a
    record.
    """

    live_count: int
    page_count: int
    check_count: int = 0
    bit_count: int = 0

    @property
    def bytes(self) -> int:
        """RAM that they take."""
        entries = LIVE_ENTRY_BYTES * self.live_count + PAGE_ENTRY_BYTES * self.page_count
        return entries + CHECK_ENTRY_BYTES * self.check_count + HOME_WORD_BYTES * -(-self.bit_count // 32)


def tables_of(graph: Graph, schedule: Schedule) -> FirmwareTables:
    """The tables of a plan."""
    return FirmwareTables(_live_count(graph, schedule), len(paged_values(schedule)), *_record_counts(graph))


def tables_for_all(
    graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction | None = None
) -> FirmwareTables:
    """The tables of a plan, with which those beside it do, too."""
    tables = tables_of(graph, schedule)
    beside = plans_beside(inference, extraction).values()
    all_of_them = [tables, *(tables_of(plan.graph, plan.schedule) for plan in beside)]
    return replace(
        tables,
        live_count=max(one.live_count for one in all_of_them),
        page_count=max(one.page_count for one in all_of_them),
    )


def room_for_features(
    usable_ram_bytes: int, graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction
) -> int:
    """Of how many samples the firmware keeps features in RAM, beside the plans."""
    taken = ram_bytes(graph, schedule, inference, extraction)
    taken += tables_for_all(graph, schedule, inference, extraction).bytes
    return max(0, usable_ram_bytes - taken) // stored_bytes(graph)


def tables_at_most(graph: Graph, store_all: Schedule) -> FirmwareTables:
    """What the tables of a plan of this graph are taken to be before there is one."""
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values if value.bytes}
    live = min(len(sizes) + 1, _live_count(graph, store_all) + MORE_LIVE)
    pages = sum(value.page is not None for node in graph.nodes for value in node.values)
    return FirmwareTables(live, pages, *_record_counts(graph))


def paged_values(schedule: Schedule) -> set[str]:
    """Values of which the card gets a copy."""
    return {step.target for step in schedule.steps if step.do is Action.PAGE_OUT}


def _record_counts(graph: Graph) -> tuple[int, int]:
    layout = card_layout(graph)
    return (layout.checks, layout.bits) if layout else (0, 0)


def _live_count(graph: Graph, schedule: Schedule) -> int:
    """Most blocks at once: values that have bytes, and the workspace of a compute while it lasts."""
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    live: set[str] = set()
    most = 1
    for step in schedule.steps:
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            live -= {*node.takes_over.values()}
            live |= {value.id for value in node.values if value.bytes}
            most = max(most, len(live) + (node.workspace_bytes > 0))
        elif step.do is Action.PAGE_IN:
            live.add(step.target)
            most = max(most, len(live))
        elif step.do is Action.FREE and sizes[step.target]:
            live.remove(step.target)
    return most
