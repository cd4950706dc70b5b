# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train, and where their parameters lie then."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.models import frozen_bytes, least_ram_bytes, trained_bytes
from poet_planner.planning.board_ram import plan_ram_bytes
from poet_planner.planning.card_form import ALL_CARD_FORMS, CardForm, forms_with_room
from poet_planner.planning.memory_policy import Parameters
from poet_planner.planning.training_graph import training_step


def fitting_graph(model: str, board: Board) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    Frozen parameters lie in flash. Trained ones are in RAM, and gradients have places of their own where there is room
    for them; otherwise larger parameters lie on the card, and are streamed, as a plan decides it. A model of which one
    layer is known to be too large is not traced.
    """
    trained = trained_bytes(model)
    if not _fits_in_flash(model, board) or least_ram_bytes(model) > board.usable_ram_bytes:
        return None
    step = training_step(model, None)
    if sum(trained) <= board.usable_ram_bytes:
        for resident_gradients in (True, False):
            graph = step.graph(board, resident_gradients)
            if _filled(graph, board) <= 1:
                return graph
    if not board.has_card:
        return None

    def on_card(form: CardForm) -> Graph:
        return step.graph(board, card_above_bytes=form.above_bytes, streaming=form.streaming)

    found = forms_with_room(ALL_CARD_FORMS, on_card, lambda graph: _filled(graph, board))[-1]
    return found.made if found.filled <= 1 else None


def _filled(graph: Graph, board: Board) -> float:
    """Which part of the board's RAM the hungriest node fills."""
    return smallest_ram_bytes(graph) / max(1, plan_ram_bytes(board, graph))


def homes_of_parameters(model: str, board: Board) -> tuple[str, ...]:
    """Where a plan for a microcontroller keeps a built-in model's parameters: trained ones first, then frozen ones.

    Empty if there is no plan.
    """
    graph = fitting_graph(model, board)
    if graph is None:
        return ()
    home = Parameters.CARD if graph.kept else Parameters.RESIDENT
    return (home.value, "flash") if frozen_bytes(model) else (home.value,)


def _fits_in_flash(model: str, board: Board) -> bool:
    return board.usable_flash_bytes is None or frozen_bytes(model) <= board.usable_flash_bytes
