# SPDX-License-Identifier: Apache-2.0
"""Small multiples of a sweep: a row of panels a network, a column a board (and a limit, where there are several)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.curve_labels import label_curves
from poet_planner.comparison.pictures.curves import Curve, draw_beyond, draw_curves, legend
from poet_planner.comparison.pictures.headings import named_place, write_heading
from poet_planner.comparison.sweep_table import LACKS, Point
from poet_planner.report.figures import INK, new_figure
from poet_planner.report.quantities import bytes_text, share_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of a page's column, and of both columns of a page together.
COLUMN_INCHES = 3.3
PAGE_INCHES = 7.0
MOST_COLUMNS, FEW_COLUMNS = 4, 2
# From the picture to its title; and for each line between them.
TITLE_POINTS, LINE_POINTS = 5, 8


@dataclass(frozen=True)
class Panel:
    """The points of one panel, its place, what stands above it, and the limit that they share."""

    row: int
    column: int
    title: str
    limit: str
    points: tuple[Point, ...]


def panels_of(points: Iterable[Point], limit: Callable[[Point], str]) -> list[Panel]:
    """Group points by network, board and ``limit``, in the order of the file.

    Where a network has a single column, or more than a page has room for, panels stand one after the other.

    Raises
    ------
    UserError
        If no point has a schedule.
    """
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for network, point in with_networks(points):
        groups.setdefault((network, point.board, limit(point)), []).append(point)
    if not any(point.energy_j is not None for group in groups.values() for point in group):
        raise UserError("nothing to draw: no point has a schedule")
    networks, boards, limits = (list(dict.fromkeys(names)) for names in zip(*groups, strict=True))
    columns = list(dict.fromkeys(key[1:] for key in groups))
    across = MOST_COLUMNS if len(columns) > MOST_COLUMNS else FEW_COLUMNS
    panels = []
    for number, ((network, board, text), group) in enumerate(groups.items()):
        row, column = networks.index(network), columns.index((board, text))
        if not 1 < len(columns) <= MOST_COLUMNS:
            row, column = divmod(number, across)
        names = (network if len(networks) > 1 or len(boards) == 1 else "", board, text if len(limits) > 1 else "")
        panels.append(Panel(row, column, named_place(*names), text, tuple(group)))
    return panels


def with_networks(points: Iterable[Point]) -> list[tuple[str, Point]]:
    """Each point with the name of its network, and its batch where there are several."""
    listed = list(points)
    if len({point.batch for point in listed}) == 1:
        return [(point.model, point) for point in listed]
    return [(f"{point.model}, batch {point.batch or 'as built'}", point) for point in listed]


def deadline_text(point: Point) -> str:
    """A deadline as a panel's title or a line's name says it."""
    return "no deadline" if point.deadline_of_plain is None else f"within {point.deadline_of_plain:.4g}\u00d7 the time"


def ram_text(point: Point) -> str:
    """A budget as a panel's title says it."""
    share = "" if point.ram_of_plain is None else f" ({share_text(point.ram_of_plain)})"
    return f"{bytes_text(point.ram_budget_bytes)}{share}"


def draw_panels(
    panels: Sequence[Panel],
    curves: Callable[[Panel], list[Curve]],
    scale: Callable[[Axes, Panel, list[Curve]], None],
    labels: tuple[str, str],
) -> Figure:
    """A figure of all panels with one legend, for one column of a page or for both.

    ``curves`` gives the curves of a panel, and ``scale`` scales its axes once they are drawn. ``labels`` are of the
    horizontal and of the vertical axis.
    """
    rows, columns = max(panel.row for panel in panels) + 1, max(panel.column for panel in panels) + 1
    roomy = columns < 3
    width = COLUMN_INCHES if columns == 1 else PAGE_INCHES
    figure, axes = new_figure(width, 0.8 + rows * (2.2 if roomy else 1.5), columns, rows)
    for axis in axes:
        axis.set_visible(False)
    drawn = []
    for panel in panels:
        axis = axes[panel.row * columns + panel.column]
        axis.set_visible(True)
        axis.tick_params(labelsize=7 if roomy else 6)
        drawn.append((axis, curves(panel)))
        lines = 0
        draw_curves(*drawn[-1])
        if drawn[-1][1]:
            scale(axis, panel, drawn[-1][1])
            lines = draw_beyond(*drawn[-1], across=5 if roomy else 3)
        else:
            _say_that_it_is_empty(axis, panel)
        axis.set_title(panel.title, fontsize=7, color=INK, parse_math=False, pad=TITLE_POINTS + LINE_POINTS * lines)
        if not any(other.column == panel.column and other.row > panel.row for other in panels):
            axis.set_xlabel(labels[0], fontsize=7, color=INK)
        if panel.column == 0:
            axis.set_ylabel(labels[1], fontsize=7, color=INK)
    limits = {panel.limit for panel in panels}
    points = [point for panel in panels for point in panel.points]
    write_heading(figure, limits if len(limits) == 1 else (), points)
    legend(figure, [curve for _, of_panel in drawn for curve in of_panel], points, columns=2 if columns == 1 else 4)
    if roomy:
        for axis, of_panel in drawn:
            if of_panel:
                label_curves(figure, axis, of_panel)
    return figure


def _say_that_it_is_empty(axis: Axes, panel: Panel) -> None:
    lacks = dict.fromkeys(LACKS[point.status] for point in panel.points)
    axis.text(0.5, 0.5, "\n".join(lacks), transform=axis.transAxes, ha="center", va="center", fontsize=7, color=INK)
    axis.set(xticks=[], yticks=[])
