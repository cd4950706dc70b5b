# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.planner measure paper`, then `python -m benchmarks.planner table`. See README.md."""

from __future__ import annotations

import typer

from benchmarks.planner.limits import limits
from benchmarks.planner.placement import placement
from benchmarks.planner.refusals import refusals
from benchmarks.planner.run import measure_suites, table

app = typer.Typer(help="Measures the planner and writes its figures.", add_completion=False, no_args_is_help=True)
app.command("measure")(measure_suites)
app.command("table")(table)
app.command("limits")(limits)
app.command("placement")(placement)
app.command("refusals")(refusals)

if __name__ == "__main__":
    app()
