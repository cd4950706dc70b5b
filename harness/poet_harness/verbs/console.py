"""Where results go: standard output, wide enough for a table when nobody is watching."""

from __future__ import annotations

import sys

from rich.console import Console

COLUMNS_IN_A_FILE = 120


def wide_console() -> Console:
    """A console on standard output; a pipe or a file gets lines of 120 characters."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else COLUMNS_IN_A_FILE)
