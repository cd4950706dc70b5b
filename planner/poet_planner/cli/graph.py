# SPDX-License-Identifier: Apache-2.0
"""`poet-plan graph`: a model's training graph for a board, before or after it is costed."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from poet_profiles.errors import UserError
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import (
    Batch,
    BoardName,
    Calibrate,
    FrozenLayers,
    Json,
    ModelName,
    TrainingOptions,
    Weights,
    board_option,
    memory_option,
    output_option,
)

if TYPE_CHECKING:
    from poet_runtime.program import Program


class Home(StrEnum):
    """Where trained parameters lie."""

    RESIDENT = "resident"
    CARD = "card"


def graph(
    model: ModelName,
    out: Annotated[Path, output_option("--out", "-o", help="File to write, poet-graph/1.")],
    training: TrainingOptions,
    board: BoardName = None,
    profile: Annotated[
        str | None, board_option(help="Cost the graph from this profile; otherwise costs are 0.")
    ] = None,
    batch: Batch = None,
    parameters: Annotated[
        Home, memory_option(help="Parameters in RAM (resident), or the larger ones on the card (card).")
    ] = Home.RESIDENT,
    micro_batches: Annotated[
        int, memory_option(metavar="K", min=1, help="The step on one of so many equal parts of a batch.")
    ] = 1,
    weights: Weights = None,
    frozen: FrozenLayers = None,
    calibrate: Calibrate = None,
    program: Annotated[
        Path | None, output_option(help="File to write for a Linux board: what it runs, poet-program/1.")
    ] = None,
    parts: Annotated[
        Path | None,
        output_option(help="Folder for the graphs of micro-batches that fit the board, NAME-K.json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the training graph of MODEL: operators, parameters, sizes, residents; what a profile has to measure.

    Beside it are written the data of its constants, if it has any (constants.safetensors), and the names of the model's
    tensors (state_dict.npz).
    """

    from poet_profiles.graph.constants import write_constants
    from poet_profiles.graph.file import graph_hash, write_graph
    from poet_profiles.graph.state_names import write_names

    from poet_planner.graph.layout import Parameters
    from poet_planner.planning.bench import Bench
    from poet_planner.planning.families import stated_layout
    from poet_planner.planning.models_that_fit import fitting_parts
    from poet_planner.planning.request import AUTO_PARTS, Request

    if profile is None and board is None:
        raise UserError("for which board? give --board, or a --profile that names it")
    request = Request(
        model,
        profile=profile,
        board=board,
        batch=batch,
        parameters=parameters,
        micro_batches=micro_batches,
        optimizer=training.chosen,
        weights=weights,
        frozen=frozen,
        calibrate=calibrate,
    )
    bench = Bench(request)
    step = bench.step(stated_layout(bench))
    traced = step.graph
    if program is not None:
        _write_program(step.program, program)
    nodes, hash = len(traced.nodes), graph_hash(traced)
    if step.constants:
        write_constants(step.constants, out.parent, hash)
    write_names(step.names, out.parent, hash)
    write_graph(traced, out)
    if parts is not None and step.board is not None:
        free = replace(request, micro_batches=AUTO_PARTS, parameters=Parameters.AUTO)
        for part in fitting_parts(Bench(free), step.board):
            write_graph(part, parts / f"{out.stem}-{part.micro_batches}.json")
    if as_json:
        written = {"file": str(out), "graph": traced.name, "nodes": nodes, "costed": bool(profile), "graph_hash": hash}
        print_json(written)
    else:
        print(f"{out}: {traced.name}, {nodes} nodes, {'costed' if profile else 'costs 0'}, hash {hash}")


def _write_program(program: Program | None, path: Path) -> None:
    from poet_runtime.program import write_program

    if program is None:
        raise UserError(f"--program {path}: only Linux boards run one; leave it out")
    if why := program.why_unwritable():
        raise UserError(f"--program {path}: {why}; leave it out")
    write_program(program, path)
