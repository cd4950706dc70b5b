# SPDX-License-Identifier: Apache-2.0
"""What is to be planned: a graph with its costs, and the board it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.boards import Board, load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.profile import read_profile
from poet_profiles.shipped import profile_names, shipped_profile

from poet_planner.costs.cost_model import CostedGraph, CostModel

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_MODEL = "resnet18_cifar"


@dataclass(frozen=True)
class Problem:
    """A costed graph; ``costed`` says what its costs rest on where they come from a profile."""

    graph: Graph
    board: Board | None
    costed: CostedGraph | None


def problem_from_graph(path: Path, board: str | None, others: Mapping[str, object]) -> Problem:
    """Read a costed graph from a file.

    Parameters
    ----------
    others : mapping
        Options by name that say what the graph already says, and what each was given; None where it was not.

    Raises
    ------
    UserError
        If the file is no costed graph, there is no such board, or one of ``others`` was given.
    """
    for option, given in others.items():
        if given is not None:
            raise UserError(f"--graph already holds the training step and its costs: leave {option} out")
    return Problem(read_graph(path), load_board(board) if board else None, None)


def problem_from_model(
    model: str | None,
    batch: int | None,
    profile: str,
    board_name: str | None,
    resident_gradients: bool = True,
    momentum: float = 0.0,
) -> Problem:
    """Trace a model for a board and cost it from the board's profile.

    Parameters
    ----------
    resident_gradients, momentum
        As :func:`poet_planner.planning.training_graph.training_graph` takes them.

    Raises
    ------
    UserError
        If the model, profile or board is not to be had, or the profile lacks the rows that are needed.
    """
    from poet_planner.planning.training_graph import training_graph

    path = profile_path(profile)
    rows = read_profile(path)
    board = load_board(board_name or _only_board(rows, path))
    rows = rows[rows["board"] == board.name]
    if rows.empty:
        raise UserError(f"{path}: no row of board {board.name}; profile it first or name another --board")
    graph = training_graph(model or DEFAULT_MODEL, batch, board, resident_gradients, momentum)
    costed = CostModel(rows, board.storage_block_bytes).apply(graph)
    if board.storage == "none":
        costed = replace(costed, graph=without_paging(costed.graph))
    return Problem(costed.graph, board, costed)


def profile_path(name: str) -> Path:
    """The profile at a path, or the shipped one of that name (``m4``, also written ``profiles/m4.csv``)."""
    path = Path(name)
    if path.is_file():
        return path
    if path.stem in profile_names() and name in (path.stem, path.name, f"profiles/{path.stem}.csv"):
        return shipped_profile(path.stem)
    raise UserError(f"no profile {name}: neither a file nor one of the shipped {', '.join(profile_names())}")


def without_paging(graph: Graph) -> Graph:
    """The same graph on a board without storage: rematerialization alone."""
    nodes = (replace(node, values=tuple(replace(value, page=None) for value in node.values)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def _only_board(rows: pd.DataFrame, path: Path) -> str:
    boards = sorted(set(rows["board"]))
    if len(boards) != 1:
        found = ", ".join(boards) or "no board at all"
        raise UserError(f"{path}: holds {found}; name one with --board")
    return str(boards[0])
