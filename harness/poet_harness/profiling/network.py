# SPDX-License-Identifier: Apache-2.0
"""A network as an agent needs it: its program, and which configuration each of its operators is."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.graph.file import read_graph
from poet_profiles.plan_folder import GRAPH_FILE, PROGRAM_FILE

from ..plan_folder.program import packed, read_program
from .configurations import Configuration, run_planner


@dataclass(frozen=True)
class PlacedOperator:
    """An operator of a step: its configuration, and bytes of its values by the graph."""

    configuration: Configuration
    bytes: int


@dataclass(frozen=True)
class Network:
    """One training step.

    Attributes
    ----------
    name, graph_hash : str
    program : bytes
        The program file, compressed.
    operators : tuple of PlacedOperator
        In the program's order, which is that of an agent's times.
    """

    name: str
    graph_hash: str
    program: bytes
    operators: tuple[PlacedOperator, ...]

    @cached_property
    def places(self) -> Mapping[Configuration, tuple[int, ...]]:
        """Where in the program each configuration stands."""
        found: dict[Configuration, tuple[int, ...]] = {}
        for index, operator in enumerate(self.operators):
            found[operator.configuration] = (*found.get(operator.configuration, ()), index)
        return found

    @property
    def step(self) -> Configuration:
        """What a profile calls the whole step."""
        return Configuration("step", f"graph={self.graph_hash}")


def from_plan(folder: Path) -> Network:
    """The network of a plan folder, whose graph and program are of one model."""
    graph, path = read_graph(folder / GRAPH_FILE), folder / PROGRAM_FILE
    document = read_program(folder, graph)
    nodes = {node.id: node for node in graph.nodes}
    try:
        ids = [operator["id"] for operator in document["operators"]]
        operators = [nodes[id] for id in ids]
    except (KeyError, TypeError):
        raise UserError(f"{path}: its operators are not the graph's; make the plan again") from None
    placed = []
    for node in operators:
        if node.operation is None:
            raise UserError(f"{folder / GRAPH_FILE}: {node.id}: names no operator (op); make the plan again")
        configuration = Configuration(node.operation.op, node.operation.params)
        placed.append(PlacedOperator(configuration, sum(v.bytes for v in node.values)))
    return Network(graph.name, document["graph_hash"], packed(document), tuple(placed))


def network_of_model(name: str, board: str) -> Network:
    """The network of a model that ``poet-plan`` knows, traced by it as a program of its own."""
    with tempfile.TemporaryDirectory(prefix="poet-") as folder:
        graph, program = Path(folder) / GRAPH_FILE, Path(folder) / PROGRAM_FILE
        run_planner("graph", "--model", name, "--board", board, "--out", str(graph), "--program", str(program))
        return from_plan(Path(folder))
