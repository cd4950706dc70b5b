# SPDX-License-Identifier: Apache-2.0
"""The command line `poet-plan`; one module a verb. Heavy imports wait until a verb runs, so that --help is quick."""

from __future__ import annotations

import gc
import os
import sys
import traceback

import typer
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.program.command_line import Command, Program
from poet_profiles.program.missing_package import missing_packages_named
from poet_profiles.program.option_groups import flattened
from poet_profiles.program.stopping import Stopped, listening

from poet_planner.cli import (
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
    """Run the command line; a mistake of the user's ends it in one line on standard error."""
    gc.set_threshold(50_000, 10, 10)  # an eighth of what the import of PyTorch takes went into looking for cycles
    try:
        with listening(), missing_packages_named():
            app()
    except Stopped as stopped:
        print(f"poet-plan: {stopped}", file=sys.stderr)
        sys.exit(stopped.exit_code)
    except UserError as error:
        if os.environ.get("POET_DEBUG"):
            traceback.print_exc()
        print("poet-plan:", error.printed, file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        print(f"poet-plan: {error.filename or 'input or output'}: {error.strerror}", file=sys.stderr)
        sys.exit(BAD_INPUT)
