# SPDX-License-Identifier: Apache-2.0
"""What a training step writes to the card, and for how many steps the card lasts."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.card.layout import BLOCK_BYTES, blocks_of, card_layout
from poet_profiles.card.record import record_bytes
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import commits_each_step
from poet_profiles.plan_folder.summary import Wear
from poet_profiles.schedule import Action, Schedule

from poet_planner.schedule.flash import stored_away


def wear(graph: Graph, schedule: Schedule, board: Board | None) -> Wear:
    """The wear of a verified plan.

    The board's file assumes what may be written to a card in all.
    """
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    paged = sum(blocks_of(sizes[step.target]) for step in schedule.steps if step.do is Action.PAGE_OUT)
    paged *= graph.micro_batches
    layout = card_layout(graph) if commits_each_step(graph) else None
    committed = 0
    if layout is not None:
        rows = {place.id: place.row_blocks for place in layout.units if place.rows > 1}
        whole = sum(place.blocks for place in layout.units if place.rows == 1 and place.id)
        together = sum(place.blocks for place in layout.units if not place.id)
        together += blocks_of(record_bytes(layout.bits, layout.checks))
        committed = whole + _row_blocks(graph, rows) + -(-together // layout.commit_each)
    endurance_bytes = board.storage_endurance_bytes if board else 0
    written = BLOCK_BYTES * (committed + paged)
    life = endurance_bytes / written if endurance_bytes and written else None
    slow = stored_away(graph, schedule) if board is not None and board.storage == "memory" else 0
    return Wear(BLOCK_BYTES * committed, BLOCK_BYTES * paged, endurance_bytes, life, slow)


def _row_blocks(graph: Graph, rows: dict[str, int]) -> int:
    """Blocks of the rows that a step writes, at most. ``rows`` are the blocks of one, by tensor."""
    operations = (node.operation for node in graph.nodes if node.operation)
    return sum(
        min(parse_params(operation.params)["m"], parse_params(operation.params)["v"]) * rows[result]
        for operation in operations
        for result in operation.results
        if result in rows
    )
