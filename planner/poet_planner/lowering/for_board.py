# SPDX-License-Identifier: Apache-2.0
"""A traced step lowered for a board, in a memory layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph

from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering.linux import lower_for_linux
from poet_planner.lowering.memory.card import (
    with_constants_on_the_card,
    with_parameters_on_the_card,
    with_states_on_the_card,
)
from poet_planner.lowering.memory.early import with_early_updates
from poet_planner.lowering.memory.in_place import with_taking_over
from poet_planner.lowering.tiles.regions import with_tiles
from poet_planner.lowering.tiles.rows import with_bands
from poet_planner.schedule.flash import flash_for_constants

if TYPE_CHECKING:
    from poet_runtime.traced_graph import TracedGraph


class TracedStep(Protocol):
    """What a layout's graph is made of: see `planning.training_graph.TrainingStep`."""

    @property
    def rehearsed(self) -> TracedGraph: ...

    @property
    def on_int8(self) -> bool: ...

    def in_ram(self, dma: bool, resident_gradients: bool, optimizer: Optimizer) -> Graph: ...

    def in_slices(self, dma: bool, optimizer: Optimizer, above_bytes: int | None) -> Graph: ...


def lowered(step: TracedStep, board: Board, optimizer: Optimizer, layout: MemoryLayout) -> Graph:
    """The step's graph for a board in a layout.

    Raises
    ------
    UserError
        If the board has no such layout.
    """
    if board.kind == "linux":
        return _for_linux(step, board, optimizer, layout)
    dma, streaming = board.dma_overlap, layout.streaming
    if layout.card_above_bytes is not None:
        if not board.has_card:
            raise _keeps_none_on_a_card(board)
        graph = step.in_slices(dma, optimizer, streaming.slices_above_bytes)
        room = flash_for_constants(graph, board)
        graph = with_parameters_on_the_card(
            graph, layout.card_above_bytes, room, streaming, layout.batch_on_card, layout.commit_each
        )
    else:
        graph = step.in_ram(dma, layout.resident_gradients and not layout.early_updates, optimizer)
        graph = graph if layout.bands is None else with_bands(graph, layout.bands)
        graph = with_tiles(graph, layout.tiles) if layout.tiles > 1 else graph
        if layout.constants_on_card:
            graph = with_constants_on_the_card(graph, flash_for_constants(graph, board) or 0, streaming)
        graph = with_early_updates(graph) if layout.early_updates else graph
        if layout.states_above_bytes is not None:
            graph = with_states_on_the_card(graph, layout.states_above_bytes, streaming.tile_bytes, layout.commit_each)
    return with_taking_over(graph)


def _for_linux(step: TracedStep, board: Board, optimizer: Optimizer, layout: MemoryLayout) -> Graph:
    if step.on_int8:
        raise UserError(
            f"--frozen int8: {board.name} trains in PyTorch, and int8 is for microcontrollers; leave it out"
        )
    if layout.card_above_bytes is not None:
        raise _keeps_none_on_a_card(board)
    for option, given in (("--gradients early", layout.early_updates), (optimizer.words, not optimizer.is_plain)):
        if given:
            raise UserError(f"{option}: a graph for {board.name} ends before the optimiser; leave it out")
    return lower_for_linux(step.rehearsed, board.dma_overlap, layout.resident_gradients)


def _keeps_none_on_a_card(board: Board) -> UserError:
    return UserError(f"--parameters card: the firmware of {board.name} keeps none on a card; leave it out")
