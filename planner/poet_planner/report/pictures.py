# SPDX-License-Identifier: Apache-2.0
"""The pictures in a plan's folder: the schedule, RAM over time, and where the energy goes, each as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.report.energy_picture import energy_figure
from poet_planner.report.figures import save
from poet_planner.report.ram_picture import ram_figure
from poet_planner.report.schedule_picture import schedule_figure
from poet_planner.schedule.timeline import timeline


def write_pictures(
    graph: Graph, schedule: Schedule, store_all: Schedule, folder: Path, time_to_scale: bool = False
) -> None:
    """Write ``schedule``, ``ram`` and ``energy``, each as ``.png`` and ``.svg``.

    Parameters
    ----------
    store_all : Schedule
        The graph's store-all schedule.
    time_to_scale : bool
        Whether equal times are equally long in the picture of the schedule; or else every step has one row.
    """
    moments = timeline(graph, schedule)
    figures = {
        "schedule": schedule_figure(graph, schedule, moments, time_to_scale),
        "ram": ram_figure(graph, schedule, moments, timeline(graph, store_all)),
        "energy": energy_figure(graph, schedule, moments),
    }
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
        figure.set_layout_engine("none")  # It stays as it has just been laid out.
        save(figure, folder / f"{name}.svg")
