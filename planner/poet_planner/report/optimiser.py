# SPDX-License-Identifier: Apache-2.0
"""What each part of the optimiser did for a plan, for people and, as JSON, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.plan_folder.summary import ImprovementReport, OptimiserReport, PartReport

from poet_planner.report.quantities import energy_text, share_text

if TYPE_CHECKING:
    from rich.table import Table

    from poet_planner.solve.statistics import Statistics

# Of the better schedules on the way, as many of the last are shown.
MOST_SHOWN = 8
# A part that took less time and gained nothing is not shown.
LEAST_S = 0.005


def optimiser_report(statistics: Statistics, overhead_j: float) -> OptimiserReport:
    """The record of a run.

    ``overhead_j`` is the plan's energy above the store-all schedule's.
    """
    from poet_planner.solve.statistics import Component

    def share(joules: float) -> float:
        return joules / overhead_j if overhead_j > 0 else 0.0

    parts = [
        PartReport(
            part.value,
            record.seconds,
            record.calls,
            record.bound_raised_j,
            share(record.bound_raised_j),
            record.incumbent_improved_j,
            share(record.incumbent_improved_j),
        )
        for part in Component
        if (record := statistics.of(part)).calls
    ]
    found = tuple(
        ImprovementReport(one.seconds, one.energy_j, one.source and one.source.value) for one in statistics.improvements
    )
    source = statistics.source and statistics.source.value
    return OptimiserReport(statistics.seconds, source, tuple(parts), found, tuple(statistics.failures))


def parts_table(report: OptimiserReport) -> Table:
    """A row for each part that took time or gained anything, for a terminal; gains are shares of the overhead."""
    from rich.table import Table

    rows = Table(
        title=f"The optimiser, {report.seconds:.2f} s: plan by {_name(report.source)}",
        caption="gains as shares of the overhead above the store-all schedule",
        title_justify="left",
        caption_justify="left",
    )
    rows.add_column("part", style="bold", no_wrap=True)
    for heading in ("seconds", "calls", "bound raised", "plan improved"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for part in report.parts:
        gains = (part.bound_raised_share, part.incumbent_improved_share)
        if part.seconds >= LEAST_S or any(gains):
            shares = (share_text(share) if share else "" for share in gains)
            rows.add_row(_name(part.part), f"{part.seconds:.2f}", str(part.calls), *shares)
    return rows


def improvements_table(report: OptimiserReport) -> Table:
    """The best schedules on the way, the last of them if there are many."""
    from rich.table import Table

    shown = report.improvements[-MOST_SHOWN:]
    of = f", the last {len(shown)} of {len(report.improvements)}" if len(shown) < len(report.improvements) else ""
    rows = Table(title=f"Better schedules{of}", title_justify="left")
    rows.add_column("after", justify="right", no_wrap=True)
    rows.add_column("energy", justify="right", no_wrap=True)
    rows.add_column("found by", no_wrap=True)
    for one in shown:
        rows.add_row(f"{one.seconds:.2f} s", energy_text(one.energy_j), _name(one.source))
    return rows


def _name(part: str | None) -> str:
    return "no part" if part is None else part.replace("_", " ")
