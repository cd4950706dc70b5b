# SPDX-License-Identifier: Apache-2.0
"""The pictures in a plan's folder: the schedule, RAM over time, and where the energy goes, as PNG, or SVG too."""

from __future__ import annotations

from pathlib import Path

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

NAMES = ("schedule", "ram", "energy")


def remove_pictures(folder: Path) -> None:
    """Those of an earlier plan."""
    for name in NAMES:
        for ending in ("png", "svg"):
            (folder / f"{name}.{ending}").unlink(missing_ok=True)


def write_pictures(
    graph: Graph,
    schedule: Schedule,
    store_all: Schedule,
    folder: Path,
    time_to_scale: bool = False,
    svg: bool = False,
    summary: Summary | None = None,
) -> None:
    """Write ``schedule.png``, ``ram.png`` and ``energy.png``.

    Parameters
    ----------
    store_all : Schedule
        The graph's store-all schedule.
    time_to_scale : bool
        Whether equal times are equally long in the picture of the schedule; or else every step has one row.
    svg : bool
        Whether to write each as ``.svg``, too.
    summary : Summary, optional
        The plan's: it knows where the costs come from, and what the whole batch's store-all schedule takes.
    """
    moments = timeline(graph, schedule)
    summary = summary or summarise(graph, schedule, store_all)
    origin = origin_text(summary)
    figures = (
        schedule_figure(graph, schedule, moments, time_to_scale, origin),
        ram_figure(graph, schedule, moments, timeline(graph, store_all), origin),
        energy_figure(graph, schedule, moments, summary, origin),
    )
    for name, figure in zip(NAMES, figures, strict=True):
        save(figure, folder / f"{name}.png")
        if svg:
            figure.set_layout_engine("none")  # It stays as it has just been laid out.
            save(figure, folder / f"{name}.svg")
