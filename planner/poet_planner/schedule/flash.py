# SPDX-License-Identifier: Apache-2.0
"""Whether what a plan puts into a chip's flash has room there; a sketch loads it into RAM."""

from __future__ import annotations

from poet_profiles.boards import Board
from poet_profiles.card.layout import BLOCK_BYTES, FIRST_BLOCK, blocks_of, card_layout
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, plans_beside, ram_bytes, stored_bytes
from poet_profiles.schedule import Schedule
from poet_profiles.schedule.calls import pages_of

from poet_planner.schedule.c_headers import families, steps_of_graphs, table_bytes, why_no_headers
from poet_planner.schedule.data import MADE_BYTES
from poet_planner.schedule.firmware_tables import tables_for_all
from poet_planner.schedule.store_all import store_all_schedule

_ON_CARD = "leave --no-paging and --gradients early out, so that the rest can lie on the card, "
# Of families of operators, beyond a board's reserve. As linked on a Cortex-M0+, and an M4F: int8 6,864, 5,784;
# blocks 1,388, 1,192; recurrent 5,280, 6,120; all steps 11,724, 10,280, each
# below 512 with its functions.
FAMILY_BYTES = {"S8": 7 * 1024, "BLOCKS": 2 * 1024, "RECURRENT": 7 * 1024}
STEPS_IN_RESERVE, STEP_BYTES, ALL_STEPS_BYTES = 6, 512, 12 * 1024
SCHEDULES = 2  # so many times the tables of the store-all schedule are left free for a plan's own


def room_in_flash(
    graph: Graph, board: Board | None, inference: Inference | None = None, extraction: Extraction | None = None
) -> int | None:
    """Bytes of flash for constants and tables beside the firmware that runs a graph; None if the size is not known."""
    room = board.usable_flash_bytes if board else None
    beyond = sum(FAMILY_BYTES[family] for family in families(graph, inference, extraction))
    steps = len(steps_of_graphs(graph, inference, extraction)) - STEPS_IN_RESERVE
    return room if room is None else room - beyond - min(max(0, steps) * STEP_BYTES, ALL_STEPS_BYTES)


def flash_for_constants(graph: Graph, board: Board) -> int | None:
    """Bytes of flash for constants where what has no room there may lie on the card; None if the size is not known."""
    room = room_in_flash(graph, board)
    if room is None or why_no_headers(graph):
        return None
    return max(0, room - SCHEDULES * _table_bytes(graph))


def has_room_in_flash(graph: Graph, board: Board | None) -> bool:
    """Whether constants and tables fit beside the firmware, with the store-all schedule at least."""
    room = room_in_flash(graph, board)
    return room is None or bool(why_no_headers(graph)) or constant_bytes(graph) + _table_bytes(graph) <= room


@once_a_graph
def loaded_bytes(graph: Graph) -> int:
    """What a plan of this graph is taken to need of a sketch's RAM for itself before there is one, in bytes."""
    if why_no_headers(graph):
        return 0
    return MADE_BYTES + constant_bytes(graph) + SCHEDULES * _table_bytes(graph)


def held_bytes(
    graph: Graph,
    schedule: Schedule,
    board: Board,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> int:
    """What a sketch keeps of a loaded plan in RAM, its frozen weights too, in bytes; 0 of a chip's firmware."""
    if not board.sketch or why_no_headers(graph):
        return 0
    all_graphs = (graph, *(one.graph for one in plans_beside(inference, extraction).values()))
    constants = max(map(constant_bytes, all_graphs))
    return MADE_BYTES + constants + table_bytes(graph, schedule, inference, extraction)


def room_for_features(
    graph: Graph, schedule: Schedule, board: Board, inference: Inference | None, extraction: Extraction
) -> int:
    """Of how many samples the firmware keeps features in RAM, beside the plans."""
    taken = held_bytes(graph, schedule, board, inference, extraction)
    taken += ram_bytes(graph, schedule, inference, extraction)
    taken += tables_for_all(graph, schedule, inference, extraction).bytes
    return max(0, board.usable_ram_bytes - taken) // stored_bytes(graph)


@once_a_graph
def _table_bytes(graph: Graph) -> int:
    return table_bytes(graph, store_all_schedule(graph))


def refuse_beyond_flash(
    graph: Graph,
    schedule: Schedule,
    board: Board | None,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> None:
    """Refuse a plan for the firmware whose constants and tables, and those of what is beside it, do not fit."""
    room = room_in_flash(graph, board, inference, extraction)
    if board is None or room is None or why_no_headers(graph):
        return
    constants = constant_bytes(inference.graph if inference else graph)
    tables = table_bytes(graph, schedule, inference, extraction)
    if constants + tables > room:
        raise UserError(
            f"{graph.name}: {constants} B of constants (frozen weights) and {tables} B of tables are "
            f"{constants + tables - room} B more than {board.name}'s flash has room for beside the firmware, {room} B; "
            f"{_ON_CARD if board.has_card else ''}take a board with more flash or a smaller frozen part, or plan "
            "without headers (--parameters excluded)"
        )


def refuse_beyond_room(
    graph: Graph,
    schedule: Schedule,
    board: Board | None,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> None:
    """Refuse a finished plan that has no room in a chip's flash or slow memory, or in a sketch's RAM."""
    refuse_beyond_flash(graph, schedule, board, inference, extraction)
    if board is not None and board.memory is not None and (away := stored_away(graph, schedule)) > board.memory.bytes:
        raise UserError(
            f"{graph.name}: takes {away} B of slow memory, and {board.name} has {board.memory.bytes}; give more --ram, "
            'or plan for its card: a board file with storage = "sd-spi" and without [memory], profiled'
        )
    if board is None or not (own := held_bytes(graph, schedule, board, inference, extraction)):
        return
    own += tables_for_all(graph, schedule, inference, extraction).bytes
    taken = ram_bytes(graph, schedule, inference, extraction)
    if (beyond := own + taken - board.usable_ram_bytes) > 0:
        raise UserError(
            f"{graph.name}: a sketch keeps plan, frozen weights and tables in RAM, {own} B, {beyond} B more than "
            f"{board.name} has beside the step; give --ram {max(0, taken - beyond)}, or take a smaller frozen part"
        )


def stored_away(graph: Graph, schedule: Schedule) -> int:
    """Bytes of storage that a plan takes: up to the end of its tensors, of one batch, and pages. 0: it takes none."""
    layout, sizes = card_layout(graph), {value.id: value.bytes for node in graph.nodes for value in node.values}
    first = FIRST_BLOCK if layout is None else layout.page_block(1)
    pages = sum(blocks_of(sizes[id]) for id in pages_of(graph, schedule))
    return BLOCK_BYTES * (first + pages) if layout or pages else 0
