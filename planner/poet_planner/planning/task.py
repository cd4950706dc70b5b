# SPDX-License-Identifier: Apache-2.0
"""What is to be planned: a graph with its costs, and the board it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board, load_board
from poet_profiles.constants import CONSTANTS_FILE, read_constants
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash, read_graph
from poet_profiles.graph.kept import kept_constants
from poet_profiles.profile import read_profile
from poet_profiles.shipped import profile_names, shipped_profile
from poet_profiles.state_names import read_names

from poet_planner.costs.cost_model import CostedGraph, CostModel
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from poet_runtime.program import Program

    from poet_planner.lowering import LoweredInference
    from poet_planner.models import Model


Profiles = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Task:
    """What is to be planned.

    Attributes
    ----------
    graph : Graph
        With costs.
    board : Board or None
        Whose RAM it is planned for; None: a graph that names no board.
    costed : CostedGraph or None
        What the costs rest on, where they come from a profile.
    constants : mapping of str to array
        The data of the graph's constants, by id, and frozen tensors of the model beside them. Empty if it is not known.
    program : Program or None
        What PyTorch runs of it, for a Linux board.
    names : mapping of str to array
        By which a board's tensors become the model's `state_dict`. Empty if it is not known.
    inference : callable or None
        Makes the inference beside it, with its costs; None for a graph that comes without a model. Raises a `UserError`
        that says why there is none.
    """

    graph: Graph
    board: Board | None
    costed: CostedGraph | None
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    program: Program | None = None
    names: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inference: Callable[[], LoweredInference] | None = None


def task_from_graph(graph: Graph | Path, board: str | None = None) -> Task:
    """A graph that has its costs; the data of its constants, and the names, lie beside the file, if at all.

    Raises
    ------
    UserError
        If the file is no costed graph, there is no such board, or the data beside the file are another graph's.
    """
    described = load_board(board) if board else None
    if isinstance(graph, Graph):
        return Task(graph, described, None)
    read, beside = read_graph(graph), graph.parent / CONSTANTS_FILE
    wanted = (read.constants or kept_constants(read)) and beside.is_file()
    names = read_names(graph.parent, graph_hash(read))
    return Task(read, described, None, read_constants(beside, read) if wanted else {}, names=names)


def refuse_beside_a_graph(others: Mapping[str, object]) -> None:
    """Refuse what a costed graph already says.

    Parameters
    ----------
    others : mapping
        Options by name, and what each was given; None where it was not.

    Raises
    ------
    UserError
        If one was given.
    """
    for option, given in others.items():
        if given is not None:
            raise UserError(f"--graph already holds the training step and its costs: leave {option} out")


class ModelOnBoard:
    """A model's training step on a board, traced once; `task` costs it from the board's profile.

    Parameters
    ----------
    model : str or Model
        As :class:`poet_planner.planning.training_graph.TrainingStep` takes it, and ``batch`` with it.
    profile : str, Path, or sequence of these
        CSV files, or names of shipped ones. A row that several have is that of the first.
    board : str, optional
        Default is the profile's.
    optimizer : Optimizer
        What ends a step on a microcontroller.
    weights : Path, optional
        As :class:`poet_planner.planning.training_graph.TrainingStep` takes them.

    Raises
    ------
    UserError
        If the profile or the board is not to be had, or the profile has no row of the board.
    """

    def __init__(
        self,
        model: str | Model,
        batch: int | None,
        profile: Profiles,
        board: str | None,
        optimizer: Optimizer = PLAIN,
        weights: Path | None = None,
    ) -> None:
        import pandas as pd

        from poet_planner.planning.training_graph import TrainingStep, training_step

        paths = [profile_path(str(one)) for one in ([profile] if isinstance(profile, str | Path) else profile)]
        tables = [read_profile(path) for path in paths]
        self._board = load_board(board or _only_board(tables[0], paths[0]))
        own = [table[table["board"] == self._board.name] for table in tables]
        for path, table in zip(paths, own, strict=True):
            if table.empty:
                raise UserError(f"{path}: no row of board {self._board.name}; profile it first or name another --board")
        self._rows = pd.concat(own, ignore_index=True)
        self._optimizer = optimizer
        make = training_step if isinstance(model, str) else TrainingStep
        self._step = make(model, batch, weights)
        self._built_in = (model, batch) if isinstance(model, str) and ":" not in model else None

    def refuse_too_large(self) -> None:
        """Refuse a built-in model that a microcontroller has no RAM for in any form, without tracing it.

        Raises
        ------
        UserError
            With the exit code ``NO_SCHEDULE``.
        """
        from poet_planner.models import least_ram_bytes

        usable_bytes = self._board.usable_ram_bytes
        if self._built_in is None or self._board.kind != "microcontroller":
            return
        least_bytes = least_ram_bytes(*self._built_in)
        if least_bytes > usable_bytes:
            raise UserError(
                f"{self._step.name}: one of its layers has {least_bytes} bytes in RAM at least, however it is cut, and "
                f"{self._board.name} has {usable_bytes} for a plan; take a smaller model or batch, or state --ram",
                NO_SCHEDULE,
            )

    @property
    def has_card(self) -> bool:
        """Whether the board's firmware can keep parameters on a card."""
        return self._board.has_card

    def task(
        self,
        resident_gradients: bool = True,
        card_above_bytes: int | None = None,
        streaming: Streaming = FETCHED_WHOLE,
    ) -> Task:
        """The costed task.

        Parameters
        ----------
        resident_gradients : bool
            Whether gradients have places of their own in RAM, or are values like others.
        card_above_bytes : int, optional
            Whether larger parameters, and the batch, lie on the card.
        streaming : Streaming
            Which of them are read tile by tile, and which activations are in slices.

        Raises
        ------
        UserError
            If the model cannot be had or traced, or the profile lacks the rows that are needed.
        """
        graph = self._step.graph(self._board, resident_gradients, self._optimizer, card_above_bytes, streaming)
        board = self._board
        costs = CostModel(self._rows, board.storage_block_bytes, board.dma_overlap, board.smallest_page_bytes)
        costed = costs.apply(graph)
        if self._board.storage == "none":
            costed = replace(costed, graph=without_paging(costed.graph))
        program = self._step.program(costed.graph) if self._board.kind == "linux" else None
        constants = self._step.constants(costed.graph)
        inference = None if self._board.kind == "linux" else partial(self._inference, costed.graph, costs)
        return Task(costed.graph, self._board, costed, constants, program, self._step.names(), inference)

    def _inference(self, training: Graph, costs: CostModel) -> LoweredInference:
        lowered = self._step.inference(training)
        return replace(lowered, graph=costs.apply(lowered.graph).graph)


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
