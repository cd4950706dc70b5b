# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train, and where their parameters lie then."""

from __future__ import annotations

from collections.abc import Iterator

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.graph.layout import GRADIENTS_PAGED, GRADIENTS_RESIDENT, MemoryLayout, Parameters
from poet_planner.models import frozen_bytes, least_ram_bytes, trained_bytes
from poet_planner.planning.calibration import Frozen
from poet_planner.planning.choose import in_layout, with_room_on_card
from poet_planner.planning.costed_step import costed_step
from poet_planner.planning.forms_in_ram import counts_of_parts, lasting_bytes
from poet_planner.planning.request import Request


def fitting_graph(model: str, board: Board, frozen: Frozen | None = None) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    ``frozen`` is as `Request` has it.

    Frozen parameters lie in flash. Trained ones are in RAM, and gradients have places of their own where there is room
    for them; otherwise larger parameters lie on the card, and are streamed, as a plan decides it. A model of which one
    layer is known to be too large is not traced.
    """
    trained = trained_bytes(model)
    if not _fits_in_flash(model, board, frozen) or least_ram_bytes(model) > board.usable_ram_bytes:
        return None
    request = Request(model, board=board, frozen=frozen)
    if sum(trained) <= board.usable_ram_bytes:
        for layout in (GRADIENTS_RESIDENT, GRADIENTS_PAGED):
            made = in_layout(request, layout)
            if made.filled <= 1:
                return made.graph
    if not board.has_card:
        return None
    made = with_room_on_card(request)[-1]
    return made.graph if made.filled <= 1 else None


def fitting_parts(request: Request, board: Board) -> Iterator[Graph]:
    """The graphs of a part of the batch, for each number of parts above 1, of which a schedule may exist."""
    if lasting_bytes(costed_step(request).graph) >= board.usable_ram_bytes:
        return
    for count in counts_of_parts(request):
        graph = costed_step(request, MemoryLayout(micro_batches=count)).graph
        if smallest_ram_bytes(graph) <= board.usable_ram_bytes:
            yield graph


def homes_of_parameters(model: str, board: Board) -> tuple[str, ...]:
    """Where a plan for a microcontroller keeps a built-in model's parameters: trained ones first, then frozen ones.

    Empty if there is no plan.
    """
    graph = fitting_graph(model, board)
    if graph is None:
        return ()
    home = Parameters.CARD if graph.kept else Parameters.RESIDENT
    return (home.value, "flash") if frozen_bytes(model) else (home.value,)


def _fits_in_flash(model: str, board: Board, frozen: Frozen | None) -> bool:
    least_bytes = frozen_bytes(model) // (4 if frozen else 1)
    return board.usable_flash_bytes is None or least_bytes <= board.usable_flash_bytes
