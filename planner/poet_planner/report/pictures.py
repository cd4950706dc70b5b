# SPDX-License-Identifier: Apache-2.0
"""The pictures in a plan's folder: the schedule, RAM over time, and where the energy goes, as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.plan_folder.summary import Summary
from poet_profiles.schedule import Schedule

from poet_planner.report.energy_picture import energy_figure
from poet_planner.report.figures import save
from poet_planner.report.ram_picture import ram_figure
from poet_planner.report.schedule_picture import schedule_figure
from poet_planner.report.summary import summarise
from poet_planner.report.table import origin_text
from poet_planner.schedule.timeline import timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("schedule", "ram", "energy")


def remove_pictures(folder: Path) -> None:
    """Those of an earlier plan."""
    for name in NAMES:
        (folder / f"{name}.png").unlink(missing_ok=True)


def plan_figures(
    graph: Graph, schedule: Schedule, store_all: Schedule, summary: Summary | None = None
) -> dict[str, Figure]:
    """The pictures by name.

    ``summary`` is the plan's, if there is one: it knows where the costs come from, and what the whole batch's store-all
    schedule takes.
    """
    moments = timeline(graph, schedule)
    summary = summary or summarise(graph, schedule, store_all)
    origin = origin_text(summary)
    figures = (
        schedule_figure(graph, schedule, moments, origin=origin),
        ram_figure(graph, schedule, moments, timeline(graph, store_all), origin),
        energy_figure(graph, schedule, moments, summary, origin),
    )
    return dict(zip(NAMES, figures, strict=True))


def write_pictures(
    graph: Graph, schedule: Schedule, store_all: Schedule, folder: Path, summary: Summary | None = None
) -> None:
    """Write the figures of `plan_figures` as PNG."""
    for name, figure in plan_figures(graph, schedule, store_all, summary).items():
        save(figure, folder / f"{name}.png")
