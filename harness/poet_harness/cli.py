# SPDX-License-Identifier: Apache-2.0
"""The ``poet-harness`` command: one module a verb, in ``verbs/``."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.program.command_line import Command, Program
from poet_profiles.program.missing_package import missing_packages_named
from poet_profiles.program.option_groups import flattened
from poet_profiles.program.stopping import Stopped, listening
from poet_profiles.program.version import show_version

from .verbs import (
    arduino,
    battery,
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
    *(battery, energy, boards, meters, doctor),
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
    """Run the command line; a fault of the user's is one line and an exit code, never a traceback.

    The environment variable POET_DEBUG shows the traceback as well.
    """
    try:
        with listening(), missing_packages_named():
            app()
    except UserError as error:
        _end(error.printed, error.exit_code)
    except Stopped as stopped:
        _end(str(stopped), stopped.exit_code)
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
    except OSError as error:
        _end(f"{error.filename or 'input or output'}: {error.strerror}", BAD_INPUT)


def _end(words: str, exit_code: int) -> NoReturn:
    with suppress(OSError):  # the terminal may be gone
        if os.environ.get("POET_DEBUG"):
            traceback.print_exc()
        print(f"poet-harness: {words}", file=sys.stderr)
    sys.exit(exit_code)
