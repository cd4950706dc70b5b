# SPDX-License-Identifier: Apache-2.0
"""RAM of a board that a plan may use."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.graph import Graph

from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.schedule.firmware_tables import tables_at_most


def plan_ram_bytes(board: Board, graph: Graph) -> int:
    """Bytes that residents and arena may take together: beside them a microcontroller holds the runner's tables."""
    if board.kind != "microcontroller":
        return board.usable_ram_bytes
    return board.usable_ram_bytes - tables_at_most(graph, store_all_schedule(graph)).bytes
