# SPDX-License-Identifier: Apache-2.0
"""Which models a board has the RAM to train, and where their parameters lie then."""

from __future__ import annotations

from collections.abc import Iterator

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import TRAINED_KINDS

from poet_planner.graph.layout import GRADIENTS_RESIDENT, MemoryLayout, Parameters
from poet_planner.models import frozen_bytes, least_ram_bytes, trained_bytes
from poet_planner.planning.bench import Bench
from poet_planner.planning.calibration import Frozen
from poet_planner.planning.contest import Contest
from poet_planner.planning.families import counts_of_parts, lasting_bytes
from poet_planner.planning.request import Request


def fitting_graph(model: str, board: Board, frozen: Frozen | None = None) -> Graph | None:
    """The training graph of a built-in model for a board; None if no schedule exists in the board's RAM.

    ``frozen`` is as `Request` has it. Of a contest's forms, of whole batches with updates at the end, it is that of the
    first that fits. A model of which one layer is known to be too large is not traced.
    """
    if not _fits_in_flash(model, board, frozen) or least_ram_bytes(model) > board.usable_ram_bytes:
        return None
    in_ram = sum(trained_bytes(model)) <= board.usable_ram_bytes
    if not in_ram and not board.has_card:
        return None
    parameters = Parameters.AUTO if in_ram else Parameters.CARD
    request = Request(model, board=board, frozen=frozen, parameters=parameters, micro_batches=1, early_updates=False)
    first = Contest(Bench(request)).first_that_fits()
    return None if first is None else first.graph


def fitting_parts(bench: Bench, board: Board) -> Iterator[Graph]:
    """The graphs of a part of the batch, for each number of parts above 1, of which a schedule may exist."""
    from poet_profiles.graph.sizes import smallest_ram_bytes

    if lasting_bytes(bench.step(GRADIENTS_RESIDENT).graph) >= board.usable_ram_bytes:
        return
    for count in counts_of_parts(bench):
        graph = bench.step(MemoryLayout(micro_batches=count)).graph
        if smallest_ram_bytes(graph) <= board.usable_ram_bytes:
            yield graph


def homes_of_parameters(model: str, board: Board) -> tuple[str, ...]:
    """Where a plan for a microcontroller keeps a built-in model's parameters: trained ones first, then frozen ones.

    Empty if there is no plan.
    """
    graph = fitting_graph(model, board)
    if graph is None:
        return ()
    trained = any(kept.kind in TRAINED_KINDS for kept in graph.kept)
    home = Parameters.CARD if trained else Parameters.RESIDENT
    if not frozen_bytes(model):
        return (home.value,)
    return home.value, "flash" if graph.constants else Parameters.CARD.value


def _fits_in_flash(model: str, board: Board, frozen: Frozen | None) -> bool:
    least_bytes = frozen_bytes(model) // (4 if frozen else 1)
    return board.usable_flash_bytes is None or least_bytes <= board.usable_flash_bytes
