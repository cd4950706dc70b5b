# SPDX-License-Identifier: Apache-2.0
"""Whether what a plan puts into a chip's flash has room there."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.schedule import Schedule

from poet_planner.schedule.c_headers import table_bytes, why_no_headers


def refuse_beyond_flash(graph: Graph, schedule: Schedule, board: Board | None) -> None:
    """Refuse a plan for the firmware whose constants and tables do not fit beside it.

    Raises
    ------
    UserError
        By how much, and the cure.
    """
    room = board.usable_flash_bytes if board else None
    if board is None or room is None or why_no_headers(graph):
        return
    constants, tables = constant_bytes(graph), table_bytes(graph, schedule)
    if constants + tables > room:
        raise UserError(
            f"{graph.name}: {constants} B of constants (frozen weights) and {tables} B of tables are "
            f"{constants + tables - room} B more than {board.name}'s flash has room for beside the firmware, {room} B; "
            "take a board with more flash or a smaller frozen part, or plan without headers (--parameters excluded)"
        )
