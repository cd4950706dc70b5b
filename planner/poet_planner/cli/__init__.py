# SPDX-License-Identifier: Apache-2.0
"""The command line `poet-plan`; one module a verb. Heavy imports wait until a verb runs, so that --help is quick."""

from __future__ import annotations

import gc

import typer
from poet_profiles.program.command_line import Command, Program
from poet_profiles.program.entry import run_program
from poet_profiles.program.option_groups import flattened

from poet_planner.cli import (
    advise,
    check,
    compare,
    data,
    execute,
    graph,
    methods,
    models,
    plan,
    plot,
    reference,
    report,
    solvers,
    sweep,
    verify,
)
from poet_planner.cli.option_groups import EXPERT

app = typer.Typer(
    name="poet-plan",
    cls=Program,
    help=plan.HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # or each line of a docstring would be a line of the help
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback(invoke_without_command=True)(flattened(plan.plan, last=EXPERT))
for verb in (
    advise.advise,
    sweep.sweep,
    compare.compare,
    plot.plot,
    methods.methods,
    report.report,
    verify.verify,
    check.check,
    execute.execute,
    graph.graph,
    data.data,
    reference.reference,
    models.models,
    solvers.solvers,
):
    app.command(verb.__name__, cls=Command)(flattened(verb, last=EXPERT))


def main() -> None:
    """Run the command line."""
    gc.set_threshold(50_000, 10, 10)  # an eighth of what the import of PyTorch takes went into looking for cycles
    run_program("poet-plan", app)
