# SPDX-License-Identifier: Apache-2.0
"""The options ``--json`` and ``--table``: standard output holds one document, and nothing else."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TextIO, TypeVar

from typer import Context

from poet_profiles.errors import UserError

from .standard_streams import lasting

STANDARD_OUTPUT = 1
Form = TypeVar("Form")

_kept: list[TextIO] = []


def alone(context: Context, form: Form) -> Form:
    """The callback of such an option: until the verb ends, what anything else prints goes to standard error."""
    if form:
        if _kept:
            raise UserError("--json and --table: standard output holds one of them; leave the other out")
        context.with_resource(_kept_for_the_document())
    return form


def print_json(document: object) -> None:
    """Print a document as JSON, which knows no NaN: what is not a number is null."""
    print_alone(json.dumps(_without_nan(document), indent=1, allow_nan=False))


def print_alone(text: str) -> None:
    """Print what standard output is kept for."""
    print(text, file=_kept[-1] if _kept else None, flush=True)


@contextmanager
def _kept_for_the_document() -> Iterator[None]:
    """Users' modules print, so do native libraries and other programs: those write to the file itself.

    What C has buffered is written as the process ends, so that the file itself stays with standard error.
    """
    _kept.append(_standard_output_alone() or sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def _standard_output_alone() -> TextIO | None:
    """A stream of our own to standard output, which is standard error to all others; None where Python has no such."""
    try:
        if not isinstance(sys.stdout, io.TextIOWrapper) or sys.stdout.fileno() != STANDARD_OUTPUT:
            return None
        sys.stdout.flush()
        own = os.dup(STANDARD_OUTPUT)
        os.dup2(sys.stderr.fileno(), STANDARD_OUTPUT)
    except (AttributeError, OSError):  # closed, or replaced by what is no file
        return None
    return lasting(own, sys.stdout)


def _without_nan(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
