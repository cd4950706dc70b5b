# SPDX-License-Identifier: Apache-2.0
"""The contest of a step's forms as a table, for people and, as JSON, for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poet_planner.report.quantities import bytes_text, energy_text

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class ContestRow:
    """A form of the step in the contest, and what became of it; energies in joules, without what the runner adds."""

    form: str
    micro_batches: int
    gradients: str
    needs_bytes: int  # no schedule of it fits in less RAM
    least_j: float  # no schedule of it takes less: each node once
    found_j: float | None  # of a schedule that was found, by a short search at least
    bound_j: float | None  # below which none is within the RAM, where that is part of the answer's bound
    runner_j: float  # what the firmware's runner adds
    why_out: str  # empty: it is the plan's


def contest_table(rows: Iterable[ContestRow]) -> Table:
    """The forms that were looked at, the plan's first."""
    from rich.table import Table

    table = Table("form", "needs", "at least", "found", "bound", "why it is not the plan's", title="forms of the step")
    for row in rows:
        found, bound = ("" if joules is None else energy_text(joules) for joules in (row.found_j, row.bound_j))
        table.add_row(row.form, bytes_text(row.needs_bytes), energy_text(row.least_j), found, bound, row.why_out)
    return table
