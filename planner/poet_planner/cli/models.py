"""`poet-plan models`: the built-in models, and which of them fit a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError


def models(
    board: Annotated[str | None, typer.Option(help="List those that fit this microcontroller's RAM.")] = None,
    graphs: Annotated[
        Path | None, typer.Option(help="With --board: write each one's training graph into this folder, NAME.json.")
    ] = None,
) -> None:
    """List the built-in models; any other is named as module:callable."""
    from poet_planner.models import names

    if board is not None:
        _list_fitting(board, graphs)
        return
    if graphs is not None:
        raise UserError("--graphs: for which board? give --board")
    for name in names():
        print(name)


def _list_fitting(board: str, graphs: Path | None) -> None:
    from poet_profiles.boards import load_board

    from poet_planner.fitting import fitting_graph
    from poet_planner.graph_file import write_graph
    from poet_planner.models import names

    description = load_board(board)
    if description.kind != "microcontroller":
        raise UserError(f"{board}: not a microcontroller; plan a model to see whether it fits")
    for name in names():
        graph = fitting_graph(name, description)
        if graph is None:
            continue
        if graphs is not None:
            graphs.mkdir(parents=True, exist_ok=True)
            write_graph(graph, graphs / f"{name}.json")
        print(name)
