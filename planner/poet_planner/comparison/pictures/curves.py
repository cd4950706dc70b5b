# SPDX-License-Identifier: Apache-2.0
"""Curves of methods over a sweep's points: lines, bands down to what is proven, and where schedules end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.method_styles import in_legend_order, style_of
from poet_planner.comparison.sweep_table import FAILED, LACKS, NONE, NOT_RUN, TIME, Point
from poet_planner.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Of what stands where there is no schedule, by why.
MARKERS: dict[str, Any] = {NONE: "x", TIME: (6, 2, 0), NOT_RUN: "1", FAILED: "2"}


@dataclass(frozen=True)
class Curve:
    """One method's points along an axis, from left to right."""

    method: str
    # x, y: points with a schedule, of equal number.
    x: tuple[float, ...]
    y: tuple[float, ...]
    proven: tuple[float, ...]  # what ``y`` is proven not to go below; empty for a method that proves nothing
    # Why there is no schedule further left: a status of the table; None: there is, or none was asked for.
    ends: str | None


def curves_of(
    points: Iterable[Point], across: Callable[[Point], float], height: Callable[[float], float] = float
) -> list[Curve]:
    """A curve for each method that has a schedule somewhere, in the order of the legend.

    Parameters
    ----------
    points : iterable of Point
        Of one model and board.
    across : callable
        What stands on the horizontal axis.
    height : callable
        What stands on the vertical axis for an energy in multiples of the store-all schedule's; that itself.

    Raises
    ------
    UserError
        If the points have no energies.
    """
    by_method: dict[str, list[Point]] = {}
    for point in sorted(points, key=across):
        by_method.setdefault(point.method, []).append(point)
    curves = []
    for method in in_legend_order(set(by_method)):
        planned = [point for point in by_method[method] if point.energy_j is not None]
        if planned:
            x = tuple(across(point) for point in planned)
            y = tuple(height(_multiple(point, point.energy_j)) for point in planned)
            proven = tuple(height(_multiple(point, point.bound_j or point.energy_j)) for point in planned)
            proves = any(point.bound_j is not None for point in planned)
            further = [point.status for point in by_method[method] if across(point) < x[0]]
            curves.append(Curve(method, x, y, proven if proves else (), further[-1] if further else None))
    return curves


def _multiple(point: Point, energy_j: float | None) -> float:
    if not point.plain_energy_j:
        raise UserError(f"{point.model}: its points have no energies; sweep over a graph with costs (--profile)")
    return (energy_j or 0.0) / point.plain_energy_j


def draw_curves(axis: Axes, curves: Sequence[Curve]) -> None:
    """Draw them, the first one uppermost."""
    for depth, curve in enumerate(curves):
        above = 10 - depth * 0.1
        for looks in _layers(curve.method):
            axis.plot(curve.x, curve.y, zorder=above, **looks)
        if curve.proven:
            colour = style_of(curve.method).colour
            axis.fill_between(
                curve.x, curve.proven, curve.y, color=colour, alpha=0.25, linewidth=0, zorder=above - 5
            )  # fmt: skip
        if curve.ends:
            axis.plot(curve.x[:1], curve.y[:1], zorder=above + 5, **lack_mark(curve.ends))


def draw_beyond(axis: Axes, curves: Sequence[Curve], across: int) -> int:
    """Above the picture an arrow for each curve that leaves it at the top, with its highest; how many lines of them."""
    leaving = [curve for curve in curves if max(curve.y) > axis.get_ylim()[1]]
    if leaving:
        axis.legend(
            [_handle(curve.method) for curve in leaving],
            [f"\u2191 {max(curve.y):.3g}\u00d7" for curve in leaving],
            loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.0, borderpad=0.1, ncols=across,
            frameon=False, fontsize=6, handlelength=1.6, handletextpad=0.3, columnspacing=0.8, labelspacing=0.1,
        )  # fmt: skip
    return -(-len(leaving) // across)


def lack_mark(status: str) -> dict[str, Any]:
    """The mark where there is no schedule, as matplotlib's `plot` takes it."""
    return {"linestyle": "", "marker": MARKERS[status], "color": INK, "markersize": 5, "markeredgewidth": 0.9}


def _layers(method: str) -> list[dict[str, Any]]:
    """What is drawn for a method: its line, on a dark edge where its colour is too light on white."""
    style = style_of(method)
    line = {"color": style.colour, "linestyle": style.line, "linewidth": style.width, "markeredgewidth": 0.8}
    line |= style.mark(3.6)
    if style.edge == style.colour:
        return [line]
    return [{"color": style.edge, "linestyle": style.line, "linewidth": style.width + 0.9}, line]


def _handle(method: str) -> tuple[Line2D, ...]:
    """What stands for a method in a legend."""
    from matplotlib.lines import Line2D

    return tuple(Line2D([], [], **looks) for looks in _layers(method))


def legend(figure: Figure, drawn: Sequence[Curve], points: Iterable[Point], columns: int) -> None:
    """All methods below the panels, with a mark if they have no schedule anywhere; bands, ends of curves, marks.

    In so many columns, or in as many as there is room for; the figure grows by its height.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = {curve.method for curve in drawn}
    lacking = {point.method: point.status for point in points if point.method not in shown}
    entries: dict[str, Any] = {
        style_of(method).label: _handle(method) if method in shown else Line2D([], [], **lack_mark(lacking[method]))
        for method in in_legend_order(shown | set(lacking))
    }
    if any(curve.proven for curve in drawn):
        colour = next(style_of(curve.method).colour for curve in drawn if curve.proven)
        entries["down to what is proven"] = Patch(color=colour, alpha=0.25, linewidth=0)
    for status in LACKS:
        ends = any(curve.ends == status for curve in drawn)
        where = [" further left"] * ends + [" at all" if ends else ""] * (status in lacking.values())
        if where:
            entries[LACKS[status] + ", or".join(where)] = Line2D([], [], **lack_mark(status))
    for axis in figure.axes:
        entries |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    look: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": 7}
    for across in range(columns, 0, -1):
        drawn_legend = figure.legend(*(list(entries.values()), list(entries)), ncols=across, **look)
        extent = drawn_legend.get_window_extent()
        if across == 1 or extent.width <= figure.bbox.width:
            break
        drawn_legend.remove()
    figure.set_figheight(figure.get_figheight() + extent.height / figure.dpi)
