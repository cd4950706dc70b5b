# SPDX-License-Identifier: Apache-2.0
"""Curves of methods over a sweep's points: lines, bands down to what is proven, and where schedules end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.report.figures import INK
from poet_planner.report.method_styles import in_legend_order, style_of
from poet_planner.report.points import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

NO_SCHEDULE = "no schedule further left"
LABEL_OFFSETS = ((4, 4), (4, -9), (0, 7), (0, -12), (7, -3))


@dataclass(frozen=True)
class Curve:
    """One method's points along an axis, from left to right.

    Attributes
    ----------
    x, y : tuple of float
        Points with a schedule, of equal number.
    proven : tuple of float or None
        What ``y`` is proven not to go below; empty for a method that proves nothing.
    ends : bool
        Whether there was no schedule further left.
    """

    method: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    proven: tuple[float | None, ...]
    ends: bool


def curves_of(points: Iterable[Point], across: Callable[[Point], float], relative_to_plain: bool) -> list[Curve]:
    """A curve for each method that has a schedule somewhere, in the order of the legend.

    Parameters
    ----------
    points : iterable of Point
        Of one model and board.
    across : callable
        What stands on the horizontal axis.
    relative_to_plain : bool
        Energy over the store-all schedule's; otherwise what is above it, in % of it.

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
        of_method = by_method[method]
        planned = [point for point in of_method if point.energy_j is not None]
        if planned:
            heights = [_height(point, point.energy_j, relative_to_plain) for point in planned]
            bounds = [None if p.bound_j is None else _height(p, p.bound_j, relative_to_plain) for p in planned]
            ends = across(of_method[0]) < across(planned[0])
            x = tuple(across(point) for point in planned)
            proven = tuple(bounds) if any(bound is not None for bound in bounds) else ()
            curves.append(Curve(method, x, tuple(heights), proven, ends))
    return curves


def _height(point: Point, energy_j: float | None, relative_to_plain: bool) -> float:
    assert energy_j is not None
    if not point.plain_energy_j:
        raise UserError(f"{point.model}: its points have no energies; sweep over a graph with costs (--profile)")
    ratio = energy_j / point.plain_energy_j
    return ratio if relative_to_plain else 100 * max(0.0, ratio - 1)


def draw_curves(axis: Axes, curves: Sequence[Curve], floor: float | None = None) -> None:
    """Draw them, the first one uppermost; nothing is drawn below ``floor``."""
    for depth, curve in enumerate(curves):
        style, above = style_of(curve.method), 10 - depth * 0.1
        y = curve.y if floor is None else tuple(max(floor, height) for height in curve.y)
        for looks in _layers(curve.method):
            axis.plot(curve.x, y, zorder=above, **looks)
        if curve.proven:
            least = [height if proven is None else proven for height, proven in zip(y, curve.proven, strict=True)]
            least = least if floor is None else [max(floor, height) for height in least]
            axis.fill_between(curve.x, least, y, color=style.colour, alpha=0.25, linewidth=0, zorder=above - 5)
        if curve.ends:
            axis.plot(curve.x[:1], y[:1], "x", color=INK, markersize=5, markeredgewidth=0.9, zorder=above + 5)


def _layers(method: str) -> list[dict[str, Any]]:
    """What is drawn for a method: its line, on a dark edge where its colour is too light on white."""
    style = style_of(method)
    line = {"color": style.colour, "linestyle": style.line, "linewidth": style.width, "markeredgewidth": 0.8}
    line |= style.mark(3.6)
    if style.edge == style.colour:
        return [line]
    return [{"color": style.edge, "linestyle": style.line, "linewidth": style.width + 0.9}, line]


def legend(figure: Figure, curves: Iterable[Curve], columns: int) -> None:
    """All methods below the panels; the band and the mark at the end of a curve, where there are such."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = list(curves)
    entries: dict[str, Any] = {
        style_of(method).label: tuple(Line2D([], [], **looks) for looks in _layers(method))
        for method in in_legend_order({curve.method for curve in drawn})
    }
    if any(curve.proven for curve in drawn):
        colour = next(style_of(curve.method).colour for curve in drawn if curve.proven)
        entries["down to what is proven"] = Patch(color=colour, alpha=0.25, linewidth=0)
    if any(curve.ends for curve in drawn):
        entries[NO_SCHEDULE] = Line2D([], [], linestyle="", marker="x", color=INK, markersize=5, markeredgewidth=0.9)
    figure.legend(
        *(list(entries.values()), list(entries)), loc="outside lower center", ncols=columns, frameon=False, fontsize=7
    )


def label_curves(figure: Figure, axis: Axes, curves: Iterable[Curve], floor: float | None = None) -> None:
    """Write names beside curves, where a name covers neither a curve nor another name; the legend has them all."""
    figure.canvas.draw()
    drawn = list(curves)
    taken = np.vstack([_in_pixels(axis, curve, floor, spacing=2.0) for curve in drawn])
    boxes: list[Bbox] = []
    for curve in drawn:
        style = style_of(curve.method)
        heights = curve.y if floor is None else [max(floor, height) for height in curve.y]
        for place, offset in (
            (place, offset) for place in zip(curve.x, heights, strict=True) for offset in LABEL_OFFSETS
        ):
            text = axis.annotate(
                style.label, place, offset, textcoords="offset points", fontsize=7, color=INK, zorder=20
            )  # fmt: skip
            box = text.get_window_extent()
            inside = (
                axis.bbox.x0 <= box.x0 and box.x1 <= axis.bbox.x1 and axis.bbox.y0 <= box.y0 and box.y1 <= axis.bbox.y1
            )
            covers = any(box.overlaps(other) for other in boxes) or _touches(box, taken)
            if inside and not covers:
                boxes.append(box)
                break
            text.remove()


def _in_pixels(axis: Axes, curve: Curve, floor: float | None, spacing: float) -> np.ndarray:
    """Points along a curve as it is drawn, at most ``spacing`` pixels apart; shape (points, 2)."""
    heights = curve.y if floor is None else [max(floor, height) for height in curve.y]
    corners = axis.transData.transform(np.column_stack([curve.x, heights]))
    pieces = [corners[-1:]]
    for start, end in pairwise(corners):
        steps = max(2, int(np.hypot(*(end - start)) / spacing))
        pieces.append(start + (end - start) * np.linspace(0, 1, steps)[:, None])
    return np.vstack(pieces)


def _touches(box: Bbox, points: np.ndarray) -> bool:
    """Whether a point lies in a box or within two pixels of it."""
    x, y = points.T
    return bool(np.any((x > box.x0 - 2) & (x < box.x1 + 2) & (y > box.y0 - 2) & (y < box.y1 + 2)))
