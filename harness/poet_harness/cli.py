# SPDX-License-Identifier: Apache-2.0
"""The ``poet-harness`` command: one module a verb, in ``verbs/``."""

from __future__ import annotations

from typing import Annotated

import typer
from poet_profiles.program.command_line import Command, Program
from poet_profiles.program.entry import run_program
from poet_profiles.program.option_groups import flattened
from poet_profiles.program.version import show_version

from .verbs import (
    arduino,
    battery,
    board,
    boards,
    bootloader,
    card,
    diff,
    doctor,
    energy,
    evaluate,
    flash,
    meters,
    profile,
    run,
    train,
    weights,
)

HELP = "Measure what training costs on a board, put a schedule on it, and run it."

app = typer.Typer(
    cls=Program,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # or each line of a docstring would be a line of the help
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    *(profile, flash, bootloader, card, run, train, evaluate, weights, arduino, diff),
    *(battery, energy, board, boards, meters, doctor),
)
for verb in VERBS:
    app.command(verb.NAME, cls=Command)(flattened(verb.command))


@app.callback(help=HELP)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=show_version, help="Print the version and end."),
    ] = False,
) -> None:
    """Options before the verb."""


def main() -> None:
    """Run the command line."""
    run_program("poet-harness", app)
