# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs have, with one name and one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError

from poet_planner.graph.optimizer import Method, Optimizer

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
TimeLimit = Annotated[
    float,
    typer.Option(
        min=0.1,
        help="Of each method at a point, at most: seconds of processor time; of the optimiser also work, as in "
        "`poet-plan --help`.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Equal seeds give equal plans.")]
SolverName = Annotated[str, typer.Option(help="MILP solver (see `poet-plan solvers`).")]
OptimizerMethod = Annotated[
    Method, typer.Option("--optimizer", help="What a step ends with, as in torch.optim; adamw: with decoupled decay.")
]
Momentum = Annotated[float, typer.Option(help="Of sgd, 0 to 1.")]
Nesterov = Annotated[bool, typer.Option("--nesterov", help="Nesterov's form of momentum.")]
WeightDecay = Annotated[float, typer.Option(help="Of every parameter.")]
Betas = Annotated[str | None, typer.Option(metavar="B1,B2", help="Of adam and adamw.", show_default="0.9,0.999")]
Eps = Annotated[float | None, typer.Option(help="Of adam and adamw.", show_default="1e-8")]
ClipValue = Annotated[
    float | None, typer.Option(help="Keep each element of a gradient within plus and minus that; default is not to.")
]


def optimizer_given(
    method: Method,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
    betas: str | None,
    eps: float | None,
    clip_value: float | None,
) -> Optimizer:
    """The optimiser that these options make up.

    Raises
    ------
    UserError
        If one is out of range, or of another optimiser.
    """
    both = Optimizer.betas if betas is None else _pair(betas)
    return Optimizer(method, momentum, nesterov, weight_decay, both, Optimizer.eps if eps is None else eps, clip_value)


def _pair(betas: str) -> tuple[float, float]:
    try:
        first, second = map(float, betas.split(","))
    except ValueError:
        raise UserError(f"--betas {betas}: are two numbers with a comma between, as 0.9,0.999") from None
    return first, second
