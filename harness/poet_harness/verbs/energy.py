# SPDX-License-Identifier: Apache-2.0
"""``poet-harness energy``: energy of named windows in a recorded trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    """Print the energy of time windows of a recorded trace, such as another meter's.

    Power is taken to change in a straight line between samples, so an edge may fall anywhere between two of them. Where
    samples are missing that is a guess: each row says how many, and for how long.
    """
    from poet_profiles.program.json_output import print_json

    from ..meters.meter import MOST_LOST
    from ..meters.recorded import read_trace, read_windows
    from .console import wide_console

    recording = read_trace(trace, voltage)
    results: list[dict[str, Any]] = [
        {
            "label": label,
            "start_s": start_s,
            "end_s": end_s,
            "energy_j": (energy_j := recording.energy_j(start_s, end_s)),
            "mean_power_w": energy_j / (end_s - start_s),
            "lost_samples": recording.lost(start_s, end_s),
            "gap_s": recording.gap_s(start_s, end_s),
        }
        for start_s, end_s, label in read_windows(windows, recording)
    ]
    if as_json:
        print_json(results)
        return
    from rich.table import Table

    table = Table("label", "start, s", "end, s", "energy, J", "mean power, W", "samples lost", "in gaps, s")
    numbers = ("start_s", "end_s", "energy_j", "mean_power_w", "lost_samples", "gap_s")
    for row in results:
        table.add_row(str(row["label"]), *(f"{row[name]:.6g}" for name in numbers))
    wide_console().print(table)
    holed = [
        f"{row['label']} ({row['gap_s'] / (row['end_s'] - row['start_s']):.1%})"
        for row in results
        if row["gap_s"] > MOST_LOST * (row["end_s"] - row["start_s"])
    ]
    if holed:
        wide_console().print(
            f"samples are missing, so that a part of the energy is a guess: {', '.join(holed)} of the time",
            markup=False,
        )
