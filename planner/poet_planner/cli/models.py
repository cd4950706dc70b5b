# SPDX-License-Identifier: Apache-2.0
"""`poet-plan models`: the built-in models, and which of them fit a board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError


def models(
    board: Annotated[
        str | None, typer.Option("--board", "-b", help="List those that fit this microcontroller's RAM.")
    ] = None,
    graphs: Annotated[
        Path | None, typer.Option(help="With --board: write each one's training graph into this folder, NAME.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names as JSON.")] = False,
) -> None:
    """List the built-in models; any other is named as module:callable."""
    import json

    from poet_planner.models import names

    if graphs is not None and board is None:
        raise UserError("--graphs: for which board? give --board")
    listed = names() if board is None else _fitting(board, graphs)
    if as_json:
        print(json.dumps(list(listed), indent=1))
        return
    for name in listed:
        print(name)


def _fitting(board: str, graphs: Path | None) -> Iterator[str]:
    """The models whose training fits the board, as they are found; their graphs are written on the way."""
    from poet_profiles.boards import load_board
    from poet_profiles.graph.file import write_graph

    from poet_planner.models import names
    from poet_planner.planning.models_that_fit import fitting_graph

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
        yield name
