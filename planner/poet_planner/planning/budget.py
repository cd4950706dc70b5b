# SPDX-License-Identifier: Apache-2.0
"""How much RAM a plan may take: of what is asked for, or of the board."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import FETCH, kept_constants
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import needed_bytes, smallest_ram_bytes

from poet_planner.planning.bench import Bench
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.request import Request
from poet_planner.report.quantities import ram_bytes
from poet_planner.schedule.firmware_tables import tables_at_most
from poet_planner.schedule.flash import loaded_bytes
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.options import NoScheduleError

PROGRAMS_PART = 8  # what a library leaves to the program that it is for: one of so many parts of the chip's RAM


def ram_budget_bytes(ram: int | str | None, usual: CostedStep, chosen: CostedStep) -> int:
    """RAM budget, resident tensors included.

    A budget given as a share (`50%`) is always a share of the usual layout's store-all peak, even if another layout is
    chosen. A board's is the smaller of what the usual and the chosen layout leave: one with fewer values that can be
    paged has shorter tables.

    Raises
    ------
    UserError
        If neither a budget nor a board is named.
    """
    if ram is not None:
        return ram_bytes(ram, store_all_schedule(usual.graph).peak_bytes)
    if usual.board is None:
        raise UserError("the graph names no board: give the RAM budget, for example --ram 256KB or --ram 50%")
    return min(plan_ram_bytes(usual.board, step.graph) for step in (usual, chosen))


def plan_ram_bytes(board: Board, graph: Graph) -> int:
    """Bytes that residents and arena may take together.

    Beside them a microcontroller holds the runner's tables, and a sketch the plan itself.
    """
    own = _tables_bytes(graph) if board.kind == "microcontroller" else 0
    return board.usable_ram_bytes - own - (loaded_bytes(graph) if board.sketch else 0)


@once_a_graph
def _tables_bytes(graph: Graph) -> int:
    return tables_at_most(graph).bytes


def beside_a_program(request: Request, board: Board | None) -> Request:
    """A library's request: where no RAM is stated, it leaves a part of the chip's to the program that it is for."""
    if request.ram is not None or board is None or board.kind != "microcontroller":
        return request
    most_bytes = board.ram_bytes - board.ram_bytes // PROGRAMS_PART
    return replace(request, ram=most_bytes) if most_bytes < board.usable_ram_bytes else request


def refuse_too_large(bench: Bench, in_parts: bool) -> None:
    """Refuse a built-in model that a microcontroller has no RAM for in any layout, without tracing it.

    ``in_parts`` says whether the batch may go through it sample by sample.
    """
    from poet_planner.models import least_ram_bytes

    request, board = bench.request, bench.board
    model = request.network
    if not isinstance(model, str) or ":" in model or board is None or board.kind != "microcontroller":
        return
    if request.frozen is not None:  # its frozen values are a quarter as large
        return
    least_bytes = least_ram_bytes(model, request.batch)
    if least_bytes > board.usable_ram_bytes and in_parts:
        with suppress(ValueError):  # a batch norm of one sample, which has no micro-batches
            least_bytes = least_ram_bytes(model, 1)
    if least_bytes > board.usable_ram_bytes:
        raise NoScheduleError(
            f"{model}: one of its layers has {least_bytes} bytes in RAM at least, however it is cut, and "
            f"{board.name} has {board.usable_ram_bytes} for a plan; take a smaller model or batch, or state --ram",
            impossible_below_bytes=least_bytes,
        )


def frozen_too_large(graph: Graph, budget_bytes: int) -> str | None:
    """Which operator has no room beside what it reads of frozen weights on the card; None if each has."""
    frozen = {one.id: one.bytes for one in kept_constants(graph)}
    if not frozen or smallest_ram_bytes(graph) <= budget_bytes:
        return None
    _, node = max(zip(needed_bytes(graph), graph.nodes, strict=True), key=lambda pair: pair[0])
    operations = [one.operation for one in graph.nodes if one.operation and one.operation.op == FETCH]
    whole = {one.results[0]: one.operands[0] for one in operations}
    operands = node.operation.operands if node.operation else ()
    read = {whole.get(id, id): "whole" if id in whole else "in tiles" for id in operands}
    largest = max(frozen.keys() & read.keys(), key=lambda id: frozen[id], default=None)
    if largest is None:
        return None
    name = node.id.partition("..")[0]
    return f"{name} reads the frozen {largest} of {frozen[largest]} bytes {read[largest]} from the card"
