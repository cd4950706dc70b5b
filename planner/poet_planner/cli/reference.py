# SPDX-License-Identifier: Apache-2.0
"""`poet-plan reference`: the same training steps by PyTorch's autograd, to hold a board's against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poet_planner.cli.options import (
    Betas,
    ClipValue,
    Eps,
    Momentum,
    Nesterov,
    OptimizerMethod,
    WeightDecay,
    Weights,
    optimizer_given,
)
from poet_planner.graph.optimizer import Method


def reference(
    model: Annotated[
        str, typer.Option("--model", "-m", help="Built-in model (see `poet-plan models`), or module:callable.")
    ],
    data: Annotated[Path, typer.Option(help="What `poet-plan data` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, .npz.")],
    learning_rate: Annotated[float, typer.Option("--lr", min=0.0, help="Of gradient descent.")] = 0.01,
    optimizer: OptimizerMethod = Method.SGD,
    momentum: Momentum = 0.0,
    nesterov: Nesterov = False,
    weight_decay: WeightDecay = 0.0,
    betas: Betas = None,
    eps: Eps = None,
    clip_value: ClipValue = None,
    follow: Annotated[
        Path | None,
        typer.Option(help="What `poet-harness run --save` wrote: every step starts from that run's weights."),
    ] = None,
    weights: Weights = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the losses as JSON.")] = False,
) -> None:
    """Write loss and every gradient of each step: `loss`, and `PARAMETER.grad` with a leading axis of steps."""
    import json

    from poet_planner.torch_reference.training_data import reference_run, write_arrays

    chosen = optimizer_given(optimizer, momentum, nesterov, weight_decay, betas, eps, clip_value)
    arrays = reference_run(model, data, learning_rate, chosen, follow, weights)
    write_arrays(arrays, out)
    losses = arrays["loss"]
    if as_json:
        print(json.dumps({"file": str(out), "model": model, "loss": losses.tolist()}, indent=1))
        return
    print(f"{out}: {model}, {len(losses)} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}")
