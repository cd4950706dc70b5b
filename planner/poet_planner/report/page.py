# SPDX-License-Identifier: Apache-2.0
"""A plan as one HTML file that opens offline: summary, pictures that answer the pointer, what left RAM and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.plan_folder.summary import Summary
from poet_profiles.schedule import Schedule

from poet_planner.report.caveats import cautions
from poet_planner.report.energy_picture import energy_added, energy_figure
from poet_planner.report.evictions import Absence, absences
from poet_planner.report.figures import LABELS, svg_text
from poet_planner.report.quantities import bytes_text, energy_text, time_text
from poet_planner.report.ram_picture import ram_figure
from poet_planner.report.schedule_picture import Grid, grid, schedule_figure
from poet_planner.report.table import origin_text, rows
from poet_planner.schedule.timeline import CostTerm, Moment, timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = "plan.html"


def page_text(graph: Graph, schedule: Schedule, store_all: Schedule, summary: Summary) -> str:
    """The page of a sound schedule."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    moments = timeline(graph, schedule)
    shown = grid(graph, schedule, moments)
    origin = origin_text(summary)
    figures = {
        "schedule": schedule_figure(graph, schedule, moments, origin=origin),
        "scaled": schedule_figure(graph, schedule, moments, to_scale=True, origin=origin),
        "ram": ram_figure(graph, schedule, moments, timeline(graph, store_all), origin),
        "energy": energy_figure(graph, schedule, moments, summary, origin),
    }
    pictures = {name: _inline(figure, name) for name, figure in figures.items()}
    environment = Environment(
        loader=PackageLoader("poet_planner.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(TEMPLATE).render(
        summary=summary,
        figures=rows(summary, verbose=True),
        cautions=cautions(summary),
        pictures=pictures,
        absences=[_row(absence, schedule) for absence in _most_expensive_first(absences(graph, schedule, moments))],
        data={
            "axes": {name: _axes(figure) for name, figure in figures.items()},
            "operators": [node.id for node in shown.nodes],
            "held": _spans(shown),
            "starts": [moment.start_s for moment in shown.moments],
            "steps": [_step_text(moment) for moment in shown.moments],
            "modules": [_module_text(name, added) for name, added in energy_added(moments).items()],
        },
    )


def _inline(figure: Figure, name: str) -> str:
    """The picture without its XML prologue; its ids are told apart from those of the page's other pictures."""
    svg = svg_text(figure)
    svg = svg[svg.index("<svg") :]
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", svg)


def _axes(figure: Figure) -> list[dict[str, list[float]]]:
    """Where the axes of a drawn figure lie, as fractions of it from the lower left, and what they range over."""
    return [
        {"box": list(axis.get_position().bounds), "x": list(axis.get_xlim()), "y": list(axis.get_ylim())}
        for axis in figure.axes
    ]


def _spans(shown: Grid) -> list[list[int]]:
    """For each operator the rows in which a value of its lies in RAM: first, end (exclusive), first, end, ..."""
    edges = np.diff(shown.held.astype(np.int8), axis=0, prepend=0, append=0)
    return [np.flatnonzero(column).tolist() for column in edges.T]


def _step_text(moment: Moment) -> str:
    span = f"at {time_text(moment.start_s)}, for {time_text(moment.end_s - moment.start_s)}"
    card = f" ({energy_text(moment.card_j)} of it the card)" if moment.card_j else ""
    return (
        f"{LABELS[moment.kind]} {moment.target}: {energy_text(moment.energy_j)}{card}, {span}; "
        f"RAM {bytes_text(moment.ram_bytes)}"
    )


def _module_text(name: str, added: dict[CostTerm, float]) -> str:
    return f"{name}: " + ", ".join(f"{LABELS[kind]} {energy_text(joules)}" for kind, joules in added.items())


def _most_expensive_first(found: list[Absence]) -> list[Absence]:
    return sorted(found, key=lambda absence: -absence.energy_j)


def _row(absence: Absence, schedule: Schedule) -> dict[str, Any]:
    alone_bytes = absence.fullest_bytes + absence.bytes
    over_bytes = alone_bytes - schedule.ram_budget_bytes
    if over_bytes > 0:
        why = f"{absence.fullest_at}: RAM would be {bytes_text(over_bytes)} over the budget there"
    else:
        why = f"none alone: {bytes_text(alone_bytes)} at {absence.fullest_at} with it; together with others, or offsets"
    return {
        "target": absence.target,
        "how": LABELS[absence.how],
        "bytes": bytes_text(absence.bytes),
        "from": time_text(absence.from_s),
        "to": time_text(absence.to_s),
        "energy": energy_text(absence.energy_j),
        "each": f"{energy_text(absence.energy_j / absence.bytes)}/B" if absence.bytes else "",
        "needed_by": absence.needed_by,
        "why": why,
    }
