# SPDX-License-Identifier: Apache-2.0
"""Where results go: standard output, wide enough for a table when nobody is watching, or as JSON for a program."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console

COLUMNS_IN_A_FILE = 120


def wide_console() -> Console:
    """A console on standard output, for plain text; a pipe or a file gets lines of 120 characters."""
    width = None if sys.stdout.isatty() else COLUMNS_IN_A_FILE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def print_json(document: object) -> None:
    """Print a document as JSON, which knows no NaN: what is not a number is null."""
    print(json.dumps(_without_nan(document), indent=1, allow_nan=False))


def _without_nan(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
