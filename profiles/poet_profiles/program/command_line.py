# SPDX-License-Identifier: Apache-2.0
"""What both programs ask of every value on their command lines, whatever the option."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

from typer import BadParameter, Context
from typer.core import TyperCommand, TyperGroup

from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.files.whole_file import folder_held

MOST = 2**53  # whole numbers up to there are exact in every format
UsageError: Any = BadParameter.__base__  # typer's releases have it at several places


def alone_in(context: Context, folder: Path) -> None:
    """Keep other commands off a folder until this one ends; what was made of it and is empty then is taken away."""
    context.with_resource(folder_held(folder))


def given(context: Context) -> set[str]:
    """The options that the user gave, by name (``time-limit``), whether as their default or not."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name.replace("_", "-") for name, source in sources.items() if source and "DEFAULT" not in source.name}


class Command(TyperCommand):
    """A verb. Its numbers are finite, and no larger than a number can be that is meant."""

    def make_context(self, *given: Any, **named: Any) -> Context:
        context = super().make_context(*given, **named)
        _refuse_no_number(context)
        return context  # type: ignore[return-value]


class Program(TyperGroup):
    """All verbs. No value is empty: an empty path would be the current folder, and an empty name no name."""

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **named: Any) -> Context:
        _refuse_empty(args)
        context = super().make_context(info_name, args, *given, **named)
        _refuse_no_number(context)
        return context  # type: ignore[return-value]

    def main(self, *given: Any, **named: Any) -> None:
        """Run it; a command line that typer does not understand is one line like every other mistake."""
        try:
            sys.exit(super().main(*given, **{**named, "standalone_mode": False}))
        except UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # which is no mistake
                error.show()
                sys.exit(BAD_INPUT)
            raise UserError(_words(error)) from None


def _words(error: Any) -> str:
    """What is wrong with a command line, in poet's form, of what typer says."""
    option, path = getattr(error, "param", None), getattr(error.ctx, "command_path", "")
    names = "" if option is None else ", ".join(option.opts)
    if type(error).__name__ == "MissingParameter":
        words = f"{names}: is missing"
    elif option is not None:
        # Newer releases say it in pydantic's words.
        said = re.sub("^Value error, |, unable to parse.*", "", error.message)
        words = f"{names}: {said.replace('Input should be', 'must be')}"
    else:
        words = error.format_message()
        words = words[:1].lower() + words[1:]
    return f"{words.rstrip('.')}; see {path} --help".replace("  ", " ")


def _refuse_empty(arguments: list[str]) -> None:
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option, sign, value = argument.partition("=")
        if not argument.strip() or (option.startswith("--") and sign and not value.strip()):
            name = option.strip() or (before if before.startswith("-") else "an argument")
            raise UserError(f"{name}: is empty; give it a value, or leave it out")


def _refuse_no_number(context: Any) -> None:
    for option in context.command.params:
        given = context.params.get(option.name)
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"{option.opts[0]} {value}: is no finite number; give one")
            if isinstance(value, int) and abs(value) > MOST:
                raise UserError(f"{option.opts[0]} {value}: is too large; give at most {MOST}")
