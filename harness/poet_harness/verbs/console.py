# SPDX-License-Identifier: Apache-2.0
"""Where results go: standard output, wide enough for a table when nobody is watching."""

from __future__ import annotations

import sys

from rich.console import Console

COLUMNS_IN_A_FILE = 120


def wide_console() -> Console:
    """A console on standard output, for plain text; a pipe or a file gets lines of 120 characters."""
    width = None if sys.stdout.isatty() else COLUMNS_IN_A_FILE
    return Console(highlight=False, markup=False, emoji=False, width=width)
