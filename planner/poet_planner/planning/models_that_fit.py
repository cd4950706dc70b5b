# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train, and where their parameters lie then."""

from __future__ import annotations

from collections.abc import Iterator

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.models import frozen_bytes, trained_bytes
from poet_planner.planning.board_ram import plan_ram_bytes
from poet_planner.planning.memory_policy import CARD_ABOVE, Parameters
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.report.quantities import size_bytes


def fitting_graph(model: str, board: Board) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    Frozen parameters lie in flash. Trained ones are in RAM, and gradients have places of their own where there is room
    for them; otherwise larger parameters lie on the card, as a plan decides it. Where the bytes of parameters rule that
    out, the model is not traced.
    """
    trained = trained_bytes(model)
    if not _fits_in_flash(model, board) or max(trained, default=0) > board.usable_ram_bytes:
        return None
    forms = _forms(training_step(model, None), board, in_ram=sum(trained) <= board.usable_ram_bytes)
    return next((graph for graph in forms if smallest_ram_bytes(graph) <= plan_ram_bytes(board, graph)), None)


def _forms(step: TrainingStep, board: Board, in_ram: bool) -> Iterator[Graph]:
    """The graph in all its forms, lowered as they are asked for."""
    if in_ram:
        yield step.graph(board, resident_gradients=True)
        yield step.graph(board, resident_gradients=False)
    if board.has_card:
        yield step.graph(board, card_above_bytes=size_bytes(CARD_ABOVE, "", ""))


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
