"""The ``poet-harness`` command: one module a verb, in ``verbs/``."""

from __future__ import annotations

import sys
from contextlib import suppress

import typer
from poet_profiles.errors import UserError
from poet_profiles.stopping import Stopped, listening

from .verbs import boards, doctor, energy, flash, meters, profile, run

app = typer.Typer(
    help="Measure what training costs on a board, put a schedule on it, and run it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (profile, flash, run, energy, boards, meters, doctor):
    app.command(verb.NAME)(verb.command)


def main() -> None:
    """Run the command line; a fault of the user's is one line and an exit code, never a traceback."""
    try:
        with listening():
            app()
    except (UserError, Stopped) as error:
        with suppress(OSError):  # the terminal may be gone
            print(f"poet-harness: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
