# SPDX-License-Identifier: Apache-2.0
"""Curves of methods over a sweep's points: lines, bands down to what is proven, and where schedules end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.method_styles import in_legend_order, style_of
from poet_planner.comparison.sweep_table import Point
from poet_planner.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The mark where a method's schedules end.
END: dict[str, Any] = {"linestyle": "", "marker": "x", "color": INK, "markersize": 5, "markeredgewidth": 0.9}


@dataclass(frozen=True)
class Curve:
    """One method's points along an axis, from left to right.

    Attributes
    ----------
    x, y : tuple of float
        Points with a schedule, of equal number.
    proven : tuple of float
        What ``y`` is proven not to go below; empty for a method that proves nothing.
    ends : bool
        Whether there was no schedule further left.
    """

    method: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    proven: tuple[float, ...]
    ends: bool


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
            ends = across(by_method[method][0]) < x[0]
            curves.append(Curve(method, x, y, proven if proves else (), ends))
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
            axis.plot(curve.x[:1], curve.y[:1], zorder=above + 5, **END)


def _layers(method: str) -> list[dict[str, Any]]:
    """What is drawn for a method: its line, on a dark edge where its colour is too light on white."""
    style = style_of(method)
    line = {"color": style.colour, "linestyle": style.line, "linewidth": style.width, "markeredgewidth": 0.8}
    line |= style.mark(3.6)
    if style.edge == style.colour:
        return [line]
    return [{"color": style.edge, "linestyle": style.line, "linewidth": style.width + 0.9}, line]


def legend(figure: Figure, drawn: Sequence[Curve], columns: int) -> None:
    """All methods below the panels; the band and the mark at the end of a curve, where there are such."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {
        style_of(method).label: tuple(Line2D([], [], **looks) for looks in _layers(method))
        for method in in_legend_order({curve.method for curve in drawn})
    }
    if any(curve.proven for curve in drawn):
        colour = next(style_of(curve.method).colour for curve in drawn if curve.proven)
        entries["down to what is proven"] = Patch(color=colour, alpha=0.25, linewidth=0)
    if any(curve.ends for curve in drawn):
        entries["no schedule further left"] = Line2D([], [], **END)
    figure.legend(
        *(list(entries.values()), list(entries)), loc="outside lower center", ncols=columns, frameon=False, fontsize=7
    )
