# SPDX-License-Identifier: Apache-2.0
"""``poet-harness energy``: energy of named windows in a recorded trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json

NAME = "energy"


def command(
    trace: Annotated[
        Path, typer.Option(help="CSV with time_s and one of power_w, current_a (with --voltage), energy_j.")
    ],
    windows: Annotated[Path, typer.Option(help="CSV with start_s, end_s and label.")],
    voltage: Annotated[float | None, typer.Option(help="Supply voltage in volt, for a trace of current_a.")] = None,
    as_json: Json = False,
) -> None:
    """Tell the energy of time windows of a recorded trace, such as another meter's.

    Power is taken to change in a straight line between samples, so an edge may fall anywhere between two of them.
    """
    from ..meters.recorded import read_trace, read_windows
    from .console import print_json, wide_console

    recording = read_trace(trace, voltage)
    results = [
        {
            "label": label,
            "start_s": start_s,
            "end_s": end_s,
            "energy_j": (energy_j := recording.energy_j(start_s, end_s)),
            "mean_power_w": energy_j / (end_s - start_s),
        }
        for start_s, end_s, label in read_windows(windows, recording)
    ]
    if as_json:
        print_json(results)
        return
    from rich.table import Table

    table = Table("label", "start, s", "end, s", "energy, J", "mean power, W")
    for row in results:
        table.add_row(
            str(row["label"]), *(f"{row[name]:.6g}" for name in ("start_s", "end_s", "energy_j", "mean_power_w"))
        )
    wide_console().print(table)
