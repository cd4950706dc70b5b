# SPDX-License-Identifier: Apache-2.0
"""The picture of RAM over time, and below it when the plan recomputes and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.report.figures import (
    BUDGET,
    COLOURS,
    INK,
    LABELS,
    kinds_of,
    new_figure,
    store_all_label,
    time_label,
    title,
)
from poet_planner.report.quantities import byte_unit
from poet_planner.schedule.timeline import CostTerm, Moment, ram_over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What is shorter than the picture's width, divided by this, is drawn as long.
MOST_CELLS = 500


def ram_figure(
    graph: Graph, schedule: Schedule, moments: list[Moment], store_all: list[Moment], origin: str = ""
) -> Figure:
    """RAM over time of the plan and of the store-all schedule, the budget, and a lane for each kind of step."""
    kinds = kinds_of(moments)
    figure, (axis, lanes) = new_figure(
        8.5, 3.8 + 0.2 * len(kinds), rows=2, sharex=True, height_ratios=[3.2, 0.2 * len(kinds)]
    )
    unit, scale = byte_unit(max(schedule.ram_budget_bytes, *(moment.ram_bytes for moment in store_all + moments)))
    times_s, ram = _curve(moments, scale)
    axis.fill_between(times_s, ram, step="post", color=COLOURS[CostTerm.COMPUTE], alpha=0.25, linewidth=0)
    axis.step(times_s, ram, where="post", color=COLOURS[CostTerm.COMPUTE], linewidth=1.2, label="this plan")
    axis.step(
        *_curve(store_all, scale), where="post", color=INK, linewidth=0.9, linestyle=":", label=store_all_label(graph)
    )
    axis.axhline(schedule.ram_budget_bytes / scale, color=BUDGET, linewidth=1.2, linestyle="--", label="budget")
    if graph.resident_bytes:
        axis.fill_between(
            [0, times_s[-1]],
            graph.resident_bytes / scale,
            facecolor="#8C959F80",
            edgecolor=INK,
            hatch="////",
            linewidth=0.3,
            label="resident: there all the time",
        )
    axis.set_xlim(0, max(times_s[-1], max(moment.end_s for moment in store_all)) or 1.0)
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"RAM, {unit}", color=INK)
    _draw_lanes(lanes, kinds, moments)
    lanes.set_xlabel(time_label(graph), color=INK)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(title(graph, schedule, origin), fontsize=10, color=INK, parse_math=False)
    return figure


def _curve(moments: list[Moment], scale: float) -> tuple[list[float], list[float]]:
    times_s, ram_bytes = ram_over_time(moments)
    return times_s, [held / scale for held in ram_bytes]


def _draw_lanes(axis: Axes, kinds: list[CostTerm], moments: list[Moment]) -> None:
    """A lane for each kind of step, named at its left, so that colours need not be told apart."""
    least_s = axis.get_xlim()[1] / MOST_CELLS
    for lane, kind in enumerate(kinds):
        busy = (span for moment in moments for term, span in moment.spans_s.items() if term is kind)
        spans = _merged([(start_s, max(end_s, start_s + least_s)) for start_s, end_s in busy])
        axis.broken_barh(
            [(start_s, end_s - start_s) for start_s, end_s in spans],
            (lane - 0.36, 0.72),
            facecolor=COLOURS[kind],
            linewidth=0,
        )
    axis.set_yticks(range(len(kinds)), [LABELS[kind] for kind in kinds])
    axis.set_ylim(len(kinds) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time, in order, those that touch as one."""
    merged: list[tuple[float, float]] = []
    for start_s, end_s in spans:
        if merged and start_s <= merged[-1][1]:
            start_s, end_s = merged[-1][0], max(merged.pop()[1], end_s)
        merged.append((start_s, end_s))
    return merged
