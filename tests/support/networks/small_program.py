# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network's step as a plan folder of a Linux board has it."""

from __future__ import annotations

from pathlib import Path

from poet_planner.planning.training_graph import training_step
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.file import write_graph
from poet_runtime.program import Program, write_program

MODEL, BATCH = "digits_cnn_small", 4


def small_program() -> tuple[Graph, Program]:
    step = training_step(MODEL, BATCH)
    graph = step.graph(load_board("host"))
    return graph, step.program(graph)


def write_small_program(folder: Path) -> Graph:
    """Write ``graph.json`` and ``program.json``."""
    graph, program = small_program()
    folder.mkdir(parents=True, exist_ok=True)
    write_graph(graph, folder / "graph.json")
    write_program(program, folder / "program.json")
    return graph
