# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train, and where their parameters lie then."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.models import frozen_bytes, trained_bytes
from poet_planner.planning.board_ram import plan_ram_bytes
from poet_planner.planning.memory_policy import CARD_ABOVE, Parameters
from poet_planner.planning.training_graph import training_graph, training_step
from poet_planner.report.quantities import size_bytes


def fitting_graph(model: str, board: Board) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    Trained parameters are in RAM, frozen ones in flash; gradients have places of their own where there is room for
    them, as a plan decides it.
    """
    if not _fits_in_flash(model, board) or sum(trained_bytes(model)) > board.usable_ram_bytes:
        return None
    for resident_gradients in (True, False):
        graph = training_graph(model, None, board, resident_gradients)
        if smallest_ram_bytes(graph) <= plan_ram_bytes(board, graph):
            return graph
    return None


def homes_of_parameters(model: str, board: Board) -> tuple[str, ...]:
    """Where a plan for a microcontroller keeps a built-in model's parameters: trained ones first, then frozen ones.

    Empty if there is no plan. That is found out without tracing the model where a single parameter exceeds the RAM.
    """
    home = _home_of_trained(model, board)
    if home is None:
        return ()
    return (home.value, "flash") if frozen_bytes(model) else (home.value,)


def _home_of_trained(model: str, board: Board) -> Parameters | None:
    if fitting_graph(model, board) is not None:
        return Parameters.RESIDENT
    largest_bytes = max(trained_bytes(model), default=0)
    if board.storage == "none" or largest_bytes > board.usable_ram_bytes or not _fits_in_flash(model, board):
        return None
    graph = training_step(model, None).graph(board, card_above_bytes=size_bytes(CARD_ABOVE, "", ""))
    return Parameters.CARD if smallest_ram_bytes(graph) <= plan_ram_bytes(board, graph) else None


def _fits_in_flash(model: str, board: Board) -> bool:
    return board.usable_flash_bytes is None or frozen_bytes(model) <= board.usable_flash_bytes
