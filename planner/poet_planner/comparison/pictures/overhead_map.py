# SPDX-License-Identifier: Apache-2.0
"""What poet's plan adds for each RAM budget and deadline, as a map: a number in each cell, darker where it is more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.headings import named_place, write_heading
from poet_planner.comparison.pictures.panels import COLUMN_INCHES, PAGE_INCHES, with_networks
from poet_planner.comparison.sweep_table import FAILED, LACKS, NONE, NOT_RUN, TIME, Point
from poet_planner.report.figures import INK, new_figure
from poet_planner.report.quantities import bytes_text, share_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

HATCHES = {NONE: "////", TIME: "....", NOT_RUN: "", FAILED: "xxxx"}
# The overhead that is drawn darkest, in %, and the one from which on cells are no longer white.
DARKEST, LIGHTEST = 100.0, 0.01


def overhead_map(points: Iterable[Point]) -> Figure:
    """A map a model and board; the legend says what a hatched cell lacks.

    Raises
    ------
    UserError
        If no point is the optimiser's.
    """
    ours = [point for point in points if point.method == "optimal"]
    if not ours:
        raise UserError("--figure overhead-map: the file has no point of the method optimal; sweep with it")
    groups: dict[tuple[str, str], list[Point]] = {}
    for network, point in with_networks(ours):
        groups.setdefault((network, point.board), []).append(point)
    deadlines = max(len({point.deadline_s for point in group}) for group in groups.values())
    width = COLUMN_INCHES if len(groups) == 1 else PAGE_INCHES
    across = min(len(groups), 3)
    down = -(-len(groups) // across)
    figure, axes = new_figure(width, 0.8 + down * (0.9 + 0.22 * deadlines), across, down)
    for axis, ((network, board), group) in zip(axes, groups.items(), strict=False):
        _draw(axis, group)
        axis.set_title(named_place(network, board), fontsize=7, color=INK, parse_math=False)
    for axis in axes[max(0, len(groups) - across) : len(groups)]:
        axis.set_xlabel("RAM", fontsize=8, color=INK)
    for axis in axes[len(groups) :]:
        axis.set_visible(False)
    figure.supylabel("deadline", fontsize=8, color=INK)
    if lacking := [status for status in LACKS if any(point.status == status for point in ours)]:
        figure.legend(
            handles=[_cell(status) for status in lacking], loc="outside lower center", frameon=False, fontsize=6
        )
    write_heading(figure, ["energy above the store-all schedule's, %"], ours)
    return figure


def _draw(axis: Axes, points: list[Point]) -> None:
    from matplotlib.colors import LogNorm

    rams = sorted({point.ram_budget_bytes for point in points})
    deadlines = sorted({_lateness(point) for point in points})
    lacks = {}
    overheads = np.full((len(deadlines), len(rams)), np.nan)
    for point in points:
        place = deadlines.index(_lateness(point)), rams.index(point.ram_budget_bytes)
        if point.overhead is not None:
            overheads[place] = 100 * point.overhead
        else:
            lacks[place] = point.status
    norm = LogNorm(LIGHTEST, DARKEST, clip=True)
    axis.pcolormesh(np.clip(overheads, LIGHTEST, None), cmap="Oranges", norm=norm, edgecolor="white", linewidth=0.5)
    for (row, column), overhead in np.ndenumerate(overheads):
        if np.isnan(overhead):
            if (row, column) in lacks:
                axis.add_patch(_cell(lacks[row, column], column, row))
            continue
        text = share_text(overhead / 100).removesuffix(" %")
        colour = "white" if norm(overhead) > 0.7 else "black"
        axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=5.5, color=colour)
    axis.set_xticks(np.arange(len(rams)) + 0.5, [bytes_text(ram) for ram in rams], rotation=90, fontsize=6)
    names = ["none" if np.isinf(late) else f"{late:.4g}\u00d7" for late in deadlines]
    axis.set_yticks(np.arange(len(deadlines)) + 0.5, names, fontsize=6)


def _cell(status: str, x: int = 0, y: int = 0) -> Rectangle:
    """A cell without a schedule, or a legend's."""
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x, y), 1, 1, facecolor="white", edgecolor=INK, hatch=HATCHES[status], linewidth=0, label=LACKS[status]
    )


def _lateness(point: Point) -> float:
    return np.inf if point.deadline_of_plain is None else point.deadline_of_plain
