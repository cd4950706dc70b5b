# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.planner measure paper`, then `python -m benchmarks.planner table`. See README.md."""

from __future__ import annotations

import typer

from benchmarks.planner.card import card
from benchmarks.planner.limits import limits
from benchmarks.planner.parts import compare_parts
from benchmarks.planner.placement import placement
from benchmarks.planner.refusals import refusals
from benchmarks.planner.run import measure_suites, table
from benchmarks.planner.stating import stating

app = typer.Typer(help="Measures the planner and writes its figures.", add_completion=False, no_args_is_help=True)
app.command("measure")(measure_suites)
app.command("table")(table)
app.command("parts")(compare_parts)
app.command("limits")(limits)
app.command("placement")(placement)
app.command("card")(card)
app.command("refusals")(refusals)
app.command("stating")(stating)

if __name__ == "__main__":
    app()
