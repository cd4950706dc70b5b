# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.models import frozen_bytes, trained_bytes
from poet_planner.planning.board_ram import plan_ram_bytes
from poet_planner.planning.training_graph import training_graph


def fitting_graph(model: str, board: Board) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    Trained parameters are in RAM, frozen ones in flash; gradients have places of their own where there is room for
    them, as a plan decides it.
    """
    flash = board.usable_flash_bytes
    if trained_bytes(model) > board.usable_ram_bytes or (flash is not None and frozen_bytes(model) > flash):
        return None
    for resident_gradients in (True, False):
        graph = training_graph(model, None, board, resident_gradients)
        if smallest_ram_bytes(graph) <= plan_ram_bytes(board, graph):
            return graph
    return None
