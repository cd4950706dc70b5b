# SPDX-License-Identifier: Apache-2.0
"""`poet-plan methods`: the optimiser, and the baselines to compare it with."""

from __future__ import annotations

from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Json
from poet_planner.cli.tables import TableForm, print_table

COLUMNS = {
    "general": "plans graphs that branch, without making chains of them",
    "compute_aware": "a plan depends on what each node costs",
    "memory_aware": "a plan depends on the size of each value, and is made for a RAM budget",
    "power_aware": "a plan depends on the energy of computes and transfers, and not on their time alone",
}
MARKS = {"yes": "\u2713", "partly": "~", "no": "\u00d7"}


def methods(as_json: Json = False, form: TableForm = None) -> None:
    """List the methods that plan: what each decides, what it takes into account (Table 1 of the paper), its source."""
    from rich.table import Table

    from poet_planner.comparison.registry import METHODS

    if as_json:
        names = ("name", "source", "decides", "recomputes", "pages", "keeps_deadline", "takes", *COLUMNS)
        print_json([{name: getattr(method, name) for name in names} for method in METHODS])
        return
    table = Table(
        *("method", "general", "compute", "memory", "power", "recomputes", "pages", "deadline", "decides", "source"),
        box=None,
    )
    marks = MARKS if form is None else {word: word for word in MARKS}
    for method in METHODS:
        can = (method.recomputes, method.pages, method.keeps_deadline)
        table.add_row(
            method.name,
            *(marks[getattr(method, column)] for column in COLUMNS),
            *(marks["yes" if able else "no"] for able in can),
            method.decides,
            method.source,
        )
    console = print_table(table, form, width=240)
    for column, meaning in COLUMNS.items():
        console.print(f"{column.removesuffix('_aware')}: {meaning}")
