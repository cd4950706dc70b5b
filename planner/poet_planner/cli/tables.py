# SPDX-License-Identifier: Apache-2.0
"""The option `--table`: what is printed for a terminal, as Markdown, LaTeX or CSV."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from poet_profiles.program.json_output import alone, print_alone

from poet_planner.cli.option_groups import output_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table


class Form(StrEnum):
    """What other programs read tables in."""

    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"


TableForm = Annotated[
    Form | None, output_option("--table", callback=alone, help="Print the table alone, in this form.")
]


def print_table(table: Table, form: Form | None, width: int = 120) -> Console:
    """Print a table; what else there is to say is for the console that is returned."""
    from rich.console import Console

    # A file takes lines of any length, and a narrow terminal wraps cells.
    console = Console(
        highlight=False, markup=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else width
    )
    if form is None:
        console.print(table)
    else:
        rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
        print_alone(table_text([str(column.header) for column in table.columns], [*rows], form))
    return console


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]], form: Form) -> str:
    """A table in one of the forms."""
    import pandas as pd

    if form is Form.MARKDOWN:
        escaped = ([cell.replace("|", "\\|") for cell in line] for line in (header, ["---"] * len(header), *rows))
        return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)
    frame = pd.DataFrame(rows, columns=[*header])
    return (frame.to_csv(index=False) if form is Form.CSV else frame.to_latex(index=False, escape=True)).rstrip()
