# SPDX-License-Identifier: Apache-2.0
"""`poet-plan data`: initial parameters and training batches, to be sent to a board."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.files.arrays import doubt
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Batch, Json, ModelName, Weights, output_option

BATCH = re.compile(r"(input|target)\d*")


def data(
    model: ModelName,
    out: Annotated[Path, output_option("--out", "-o", help="File to write, .npz.")],
    steps: Annotated[int, typer.Option(min=1, help="Training steps, one batch each.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the samples.")] = 0,
    batch: Batch = None,
    arrays: Annotated[
        Path | None,
        typer.Option(help="Your own samples: an .npz with arrays `input` and `target`, a sample a row."),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Of u8, i8 or i16 in --arrays, (q - shift) * scale: a number, 1/255, or one a channel: 0.1,0.2."
        ),
    ] = None,
    shift: Annotated[str | None, typer.Option(help="See --scale; 0 if not given.")] = None,
    weights: Weights = None,
    as_json: Json = False,
) -> None:
    """Write parameters, buffers and constants under their names, and `input` and `target` with one batch a step."""

    from poet_profiles.quantised import read_normalising

    from poet_planner.torch_reference.training_data import training_data, write_arrays

    written = training_data(model, steps, seed, batch, arrays, weights, read_normalising(scale, shift))
    write_arrays(written, out)
    if arrays is not None:
        for line in filter(None, (doubt(name, array) for name, array in written.items() if BATCH.fullmatch(name))):
            typer.echo(f"poet-plan: {arrays}: {line}", err=True)
    if as_json:
        print_json({"file": str(out), "model": model, "steps": steps, "arrays": list(written)})
        return
    source = f"from {arrays}" if arrays else "of the model's own examples"
    begin = f", with the weights of {weights}" if weights else ""
    print(f"{out}: {model}{begin}, {steps} batches {source}, {sum('..' not in name for name in written)} arrays")
