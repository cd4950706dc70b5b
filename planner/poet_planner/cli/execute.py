# SPDX-License-Identifier: Apache-2.0
"""`poet-plan execute`: training steps under a plan for a Linux board, on this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.amounts import loss_text
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Json, LearningRate, TrainingOptions, output_option


def execute(
    plan: Annotated[Path, typer.Argument(help="Folder of a plan for a Linux board.")],
    data: Annotated[Path, typer.Option(help="What `poet-plan data` wrote: a step a batch.")],
    training: TrainingOptions,
    out: Annotated[
        Path | None, output_option("--out", "-o", help="File for loss and gradients of each step, .npz.")
    ] = None,
    learning_rate: LearningRate = 0.01,
    page_folder: Annotated[
        Path | None, typer.Option(help="Folder for the page file; default is the system's for temporary files.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch; default is PyTorch's own.")] = None,
    as_json: Json = False,
) -> None:
    """Run PLAN of a Linux board on your data without its model's code; write loss and gradients, print time and memory.

    Loss and gradients are what `poet-plan reference` writes for the same data, bit for bit.
    """
    from dataclasses import asdict
    from statistics import median

    import torch

    from poet_planner.report.quantities import bytes_text, time_text
    from poet_planner.torch_reference.plan_run import LOSS, plan_run
    from poet_planner.torch_reference.training_data import write_arrays

    if threads is not None:
        torch.set_num_threads(threads)
    run = plan_run(plan, data, learning_rate, training.chosen, page_folder)
    if out is not None:
        write_arrays(run.arrays, out)
    losses = run.arrays[LOSS]
    if as_json:
        print_json(
            {
                "plan": str(plan),
                "steps": len(losses),
                "loss": losses.tolist(),
                "times_s": run.times_s,
                "peak_bytes": run.peak_bytes,
                "planned_peak_bytes": run.planned_peak_bytes,
                "traffic": asdict(run.traffic),
                "note": run.note,
            },
        )
        return
    print(
        f"{plan}: {len(losses)} steps, loss {loss_text(losses[0])} to {loss_text(losses[-1])}, "
        f"{time_text(median(run.times_s))} a step; {bytes_text(run.peak_bytes)} allocated at once beside parameters "
        f"and batch, planned {bytes_text(run.planned_peak_bytes)}; {bytes_text(run.traffic.out_bytes)} to disk and "
        f"{bytes_text(run.traffic.in_bytes)} back"
    )
    if run.note:
        typer.echo(f"poet-plan: {run.note}", err=True)
