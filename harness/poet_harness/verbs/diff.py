# SPDX-License-Identifier: Apache-2.0
"""``poet-harness diff``: has a board, a firmware or a kernel become more expensive?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from ..regression import Change, Compared

NAME = "diff"
MORE_EXPENSIVE = 1
# Header, and how many of the unit are one of the SI unit.
UNITS = {"time_s": ("time, ms", 1e3), "energy_j": ("energy, mJ", 1e3), "idle_power_w": ("idle power, mW", 1e3)}
MOST_LISTED = 20


def command(
    first: Annotated[Path, typer.Argument(help="A profile (CSV).", metavar="A.csv")],
    second: Annotated[Path, typer.Argument(help="Another of the same board, to compare with it.", metavar="B.csv")],
    limit: Annotated[str, typer.Option(help="How much more expensive a row of B may be, such as 2%.")] = "2%",
    every: Annotated[bool, typer.Option("--all", help="List the rows that have not changed, too.")] = False,
    as_json: Json = False,
) -> None:
    """Compare two profiles of a board row by row.

    A row of B is more expensive if its time or energy lies above A's by more than limit and spread together. The
    spread is twice the standard deviation of the difference, from the deviations of both files.

    The exit code is 1 if a row is more expensive and 0 if none is. It is 2 if the files cannot be compared, as they are
    of different boards, or one was measured and the other emulated. Rows that only one of the files has are
    listed; they do not change the exit code.
    """
    from poet_profiles.program.json_output import print_json

    from ..regression import Verdict, compare_files
    from .console import wide_console

    share = _share(limit)
    compared = compare_files(first, second, share)
    more_expensive = compared.of(Verdict.MORE_EXPENSIVE)
    if as_json:
        print_json(_document(compared, first, second, share, len(more_expensive)))
    else:
        console = wide_console()
        if shown := list(compared.changes) if every else [*more_expensive, *compared.of(Verdict.CHEAPER)]:
            console.print(_table(shown, f"{first} and {second}"))
        for line in _lines(compared, limit):
            console.print(line, soft_wrap=True, markup=False)
    if more_expensive:
        raise typer.Exit(MORE_EXPENSIVE)


def _share(limit: str) -> float:
    from poet_profiles.errors import UserError

    try:
        share = float(limit.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not limit.endswith("%") or not 0 <= share < float("inf"):
        raise UserError(f"--limit {limit}: must be a percentage, such as 2%")
    return share


def _table(changes: list[Change], title: str) -> Table:
    from rich.table import Table

    table = Table("row", "", "A", "B", "difference", "spread", "", title=title)
    for change in changes:
        unit, scale = UNITS[change.quantity]
        relative = "" if change.relative is None else f"{change.relative:+.2%}"
        spread = f"±{change.spread / change.first.value:.2%}" if change.first.value else f"±{change.spread * scale:.4g}"
        figures = (f"{reading.value * scale:.5g}" for reading in (change.first, change.second))
        table.add_row(change.row, unit, *figures, relative, spread, change.verdict.value)
    return table


def _lines(compared: Compared, limit: str) -> list[str]:
    from ..regression import Verdict

    lines = []
    for name, rows in (("A", compared.only_first), ("B", compared.only_second)):
        if rows:
            lines.append(f"only in {name}: {_listed(rows)}")
    if compared.left_out:
        unlike = tuple(f"{row} ({why})" for row, why in compared.left_out.items())
        lines.append(f"not alike, and left out: {_listed(unlike)}")
    lines += compared.notes
    worse, cheaper, same = (len(compared.of(verdict)) for verdict in Verdict)
    what = Counter(UNITS[change.quantity][0].split(",")[0] for change in compared.of(Verdict.MORE_EXPENSIVE))
    listed = f" ({', '.join(f'{quantity} {count}' for quantity, count in what.items())})" if what else ""
    return [
        *lines,
        f"{len(compared.changes)} costs, limit {limit} beyond the spread: {worse} more expensive{listed}, "
        f"{cheaper} cheaper, {same} the same",
    ]


def _listed(rows: tuple[str, ...]) -> str:
    more = len(rows) - MOST_LISTED
    return "; ".join(rows[:MOST_LISTED]) + (f"; and {more} more (--json lists all)" if more > 0 else "")


def _document(compared: Compared, first: Path, second: Path, limit: float, more_expensive: int) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "first": str(first),
        "second": str(second),
        "limit": limit,
        "more_expensive": more_expensive,
        "changes": [
            {**asdict(change), "difference": change.difference, "relative": change.relative}
            for change in compared.changes
        ],
        "only_first": compared.only_first,
        "only_second": compared.only_second,
        "left_out": compared.left_out,
        "notes": compared.notes,
    }
