# SPDX-License-Identifier: Apache-2.0
"""RAM that the firmware's schedule runner takes for itself: its tables, beside residents and arena.

The board file's ``ram_reserved_bytes`` is what the firmware takes whatever it runs. Tables grow with the plan:
RAM budget + tables + reserve are the board's RAM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from poet_profiles.card.layout import card_layout
from poet_profiles.graph import Graph
from poet_profiles.plan_folder.beside import Extraction, Inference, plans_beside
from poet_profiles.schedule import Action, Schedule

# sizeof in firmware/include/poet, on a board with 32-bit words; a test asks a compiler.
PAGE_ENTRY_BYTES = 4  # poet_page
CHECK_ENTRY_BYTES = 12  # poet_check
HOME_WORD_BYTES = 12  # three words, for 32 bits of a record


@dataclass(frozen=True)
class FirmwareTables:
    """Lengths of the tables: values that are paged, checks and bits of a record."""

    page_count: int
    check_count: int = 0
    bit_count: int = 0

    @property
    def bytes(self) -> int:
        """RAM that they take."""
        return (
            PAGE_ENTRY_BYTES * self.page_count
            + CHECK_ENTRY_BYTES * self.check_count
            + HOME_WORD_BYTES * -(-self.bit_count // 32)
        )


def tables_of(graph: Graph, schedule: Schedule) -> FirmwareTables:
    """The tables of a plan."""
    return FirmwareTables(len(paged_values(schedule)), *_record_counts(graph))


def tables_for_all(
    graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction | None = None
) -> FirmwareTables:
    """The tables of a plan, with which those beside it do, too."""
    tables = tables_of(graph, schedule)
    beside = plans_beside(inference, extraction).values()
    counts = [tables.page_count, *(len(paged_values(plan.schedule)) for plan in beside)]
    return replace(tables, page_count=max(counts))


def tables_at_most(graph: Graph) -> FirmwareTables:
    """What the tables of a plan of this graph are taken to be before there is one."""
    pages = sum(value.page is not None for node in graph.nodes for value in node.values)
    return FirmwareTables(pages, *_record_counts(graph))


def paged_values(schedule: Schedule) -> set[str]:
    """Values of which the card gets a copy."""
    return {step.target for step in schedule.steps if step.do is Action.PAGE_OUT}


def _record_counts(graph: Graph) -> tuple[int, int]:
    layout = card_layout(graph)
    return (layout.checks, layout.bits) if layout else (0, 0)
