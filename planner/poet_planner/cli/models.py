# SPDX-License-Identifier: Apache-2.0
"""`poet-plan models`: the built-in models, where boards keep their parameters, and which of them a board can train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Json


def models(
    board: Annotated[
        str | None, typer.Option("--board", "-b", help="List those that this microcontroller can train.")
    ] = None,
    graphs: Annotated[
        Path | None,
        typer.Option(
            help="With --board: write each one's training graphs into this folder, NAME.json, of parts NAME-K.json, "
            "with frozen layers on int8 NAME-int8.json."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in models, and where each microcontroller would keep their parameters; any other model is named as
    module:callable.
    """

    if graphs is not None and board is None:
        raise UserError("--graphs: for which board? give --board")
    if board is None:
        _print_homes(as_json)
        return
    listed = _fitting(board, graphs)
    if as_json:
        print_json(list(listed))
        return
    for name in listed:
        print(name)


def _print_homes(as_json: bool) -> None:
    """A row a model, as they are found: some have to be traced."""

    from poet_profiles.boards import board_names, load_board
    from poet_profiles.shipped import profile_names

    from poet_planner.models import frozen_bytes, names, trained_bytes
    from poet_planner.planning.models_that_fit import homes_of_parameters

    # Those whose costs are shipped; others have the memory of one of them.
    known = [load_board(name) for name in board_names() if name in profile_names()]
    boards = [board for board in known if board.kind == "microcontroller"]
    rows = []
    if not as_json:
        print(f"{'model':24} {'parameters':>12}  " + " ".join(f"{board.name:16}" for board in boards))
    for name in names():
        count = (sum(trained_bytes(name)) + frozen_bytes(name)) // 4
        homes = {board.name: homes_of_parameters(name, board) for board in boards}
        rows.append({"model": name, "parameters": count, "homes": homes})
        if not as_json:
            cells = (", ".join(home) or "too large" for home in homes.values())
            print(f"{name:24} {count:12,}  " + " ".join(f"{cell:16}" for cell in cells))
    if as_json:
        print_json(rows)


def _fitting(board: str, graphs: Path | None) -> Iterator[str]:
    """The models whose training fits the board, as they are found; their graphs are written on the way."""
    from poet_profiles.boards import load_board
    from poet_profiles.graph.file import write_graph

    from poet_planner.models import frozen_bytes, names
    from poet_planner.planning.bench import Bench
    from poet_planner.planning.calibration import Frozen
    from poet_planner.planning.models_that_fit import fitting_graph, fitting_parts
    from poet_planner.planning.request import Request

    description = load_board(board)
    if description.kind != "microcontroller":
        raise UserError(f"{board}: not a microcontroller; plan a model to see whether it fits")
    if graphs is not None:
        graphs.mkdir(parents=True, exist_ok=True)
    for name in names():
        if graphs is not None and frozen_bytes(name):
            on_int8 = fitting_graph(name, description, Frozen.INT8)
            if on_int8 is not None:
                write_graph(on_int8, graphs / f"{name}-{Frozen.INT8}.json")
        graph = fitting_graph(name, description)
        if graph is None:
            continue
        if graphs is not None:
            write_graph(graph, graphs / f"{name}.json")
            for part in () if graph.kept else fitting_parts(Bench(Request(name, board=description)), description):
                write_graph(part, graphs / f"{name}-{part.micro_batches}.json")
        yield name
