# SPDX-License-Identifier: Apache-2.0
"""Whether a command line has the options that a page or a program gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer.main
from poet_harness.cli import app as harness
from poet_planner.cli import app as planner


def unknown_options(command: Sequence[str]) -> set[str]:
    """Options of a command of ``poet-harness`` or ``poet-plan``, as words, that it does not have."""
    program, *words = command
    verb = typer.main.get_command(harness if program == "poet-harness" else planner)
    if words and not words[0].startswith("-"):
        verb = verb.commands[words.pop(0)]  # type: ignore[attr-defined]
    known = {option for parameter in verb.params for option in parameter.opts}
    return {word for word in words if re.match("--?[a-z]", word)} - known
