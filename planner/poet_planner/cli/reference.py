# SPDX-License-Identifier: Apache-2.0
"""`poet-plan reference`: the same training steps by PyTorch's autograd, to compare with a board's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.amounts import loss_text
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import (
    Calibrate,
    FrozenLayers,
    Json,
    LearningRate,
    ModelName,
    TrainingOptions,
    Weights,
    output_option,
    training_option,
)


def reference(
    model: ModelName,
    data: Annotated[Path, typer.Option(help="What `poet-plan data` wrote.")],
    out: Annotated[Path, output_option("--out", "-o", help="File to write, .npz.")],
    training: TrainingOptions,
    learning_rate: LearningRate = 0.01,
    follow: Annotated[
        Path | None,
        typer.Option(help="What `poet-harness run --save` wrote: every step starts from that run's weights."),
    ] = None,
    weights: Weights = None,
    frozen: FrozenLayers = None,
    calibrate: Calibrate = None,
    micro_batches: Annotated[
        int, training_option(min=1, help="Parts in which each batch goes through the network, as it was planned.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Train in plain PyTorch; write losses and gradients to compare with a board's.

    The arrays are `loss`, and `PARAMETER.grad` with a leading axis of steps.
    """

    from poet_planner.planning.request import calibration
    from poet_planner.torch_reference.training_data import reference_run, write_arrays

    arrays = reference_run(
        model, data, learning_rate, training.chosen, follow, weights, micro_batches, calibration(frozen, calibrate)
    )
    write_arrays(arrays, out)
    losses = arrays["loss"]
    if as_json:
        print_json({"file": str(out), "model": model, "loss": losses.tolist()})
        return
    print(f"{out}: {model}, {len(losses)} steps, loss {loss_text(losses[0])} to {loss_text(losses[-1])}")
