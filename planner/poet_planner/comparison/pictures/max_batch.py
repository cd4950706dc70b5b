# SPDX-License-Identifier: Apache-2.0
"""The largest batch that each method trains in the same RAM, from a sweep over batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.headings import named_place, write_heading
from poet_planner.comparison.pictures.method_styles import in_legend_order, style_of
from poet_planner.comparison.pictures.panels import COLUMN_INCHES, PAGE_INCHES, deadline_text
from poet_planner.comparison.sweep_table import Point
from poet_planner.report.figures import INK, new_figure
from poet_planner.report.quantities import bytes_text, share_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def max_batch(points: Iterable[Point]) -> Figure:
    """A panel a model, board, RAM budget and deadline: a bar a method, with what its largest batch adds in energy.

    Raises
    ------
    UserError
        If there are not two batches in the same RAM to choose from.
    """
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        if point.batch is not None:
            limits = f"{bytes_text(point.ram_budget_bytes)}, {deadline_text(point)}"
            title = named_place(point.model, point.board), limits
            groups.setdefault(title, []).append(point)
    groups = {title: group for title, group in groups.items() if len({point.batch for point in group}) > 1}
    if not groups:
        raise UserError("--figure max-batch: no RAM budget has points of several batches; sweep with --batch")
    methods = max(len({point.method for point in group}) for group in groups.values())
    across = min(len(groups), 2)
    down = -(-len(groups) // across)
    width = COLUMN_INCHES if across == 1 else PAGE_INCHES
    figure, axes = new_figure(width, 0.3 + down * (0.8 + 0.17 * methods), across, down)
    for axis, (title, group) in zip(axes, groups.items(), strict=False):
        _draw(axis, group)
        axis.set_title("\n".join(title), fontsize=7, color=INK, parse_math=False)
    for axis in axes[len(groups) :]:
        axis.set_visible(False)
    figure.supxlabel("largest batch with a schedule", fontsize=8, color=INK)
    write_heading(figure, [], (point for group in groups.values() for point in group))
    return figure


def _draw(axis: Axes, points: list[Point]) -> None:
    methods = in_legend_order({point.method for point in points})
    most = max(point.batch or 0 for point in points)
    for place, method in enumerate(methods):
        fitting = [point for point in points if point.method == method and point.overhead is not None]
        largest = max(fitting, key=lambda point: point.batch or 0, default=None)
        batch = 0 if largest is None else largest.batch or 0
        text = "none" if largest is None else f"{batch}, +{share_text(largest.overhead or 0.0)}"
        bar = axis.barh(place, batch, color=style_of(method).colour, edgecolor=INK, linewidth=0.5)
        axis.bar_label(bar, [text], padding=3, fontsize=6, color=INK)
    axis.set_yticks(range(len(methods)), [style_of(method).label for method in methods], fontsize=7)
    axis.set_ylim(len(methods) - 0.4, -0.6)
    axis.set_xlim(0, 1.4 * most)
