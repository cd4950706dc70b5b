# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs have, with one name and one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Profiles = Annotated[
    list[str] | None,
    typer.Option(
        help="Profile of the board: a CSV file, or the name of a shipped one. May be given several times: each adds "
        "what those before it lack."
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Built-in model (see `poet-plan models`), or module:callable.")
]
GraphFile = Annotated[Path | None, typer.Option(help="Plan this costed graph (poet-graph/1) instead of a model.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Batch size; default is the model's own.")]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="Weights that the model is to have instead of its own, all by their names in its state_dict: "
        ".safetensors, .pt, .pth (torch.save of a state_dict) or .npz."
    ),
]
Board = Annotated[str | None, typer.Option("--board", "-b", help="Board; default is the profile's.")]
Ram = Annotated[
    str | None,
    typer.Option(
        help="RAM budget: 256KB (KB, MB and GB are powers of 1024, as boards are sold), or 50% of the store-all "
        "schedule's peak; default is the board's."
    ),
]
Deadline = Annotated[
    str | None, typer.Option(help="Time limit of a training step: 2.5s, or 1.5x the store-all schedule's time.")
]
Methods = Annotated[
    str, typer.Option(help="all, or a,b (names of `poet-plan methods`); the optimiser is always among them.")
]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal plans.")]
SolverName = Annotated[str, typer.Option(help="MILP solver (see `poet-plan solvers`).")]
