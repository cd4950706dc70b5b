# SPDX-License-Identifier: Apache-2.0
"""Names beside curves, where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from poet_planner.comparison.pictures.curves import Curve
from poet_planner.comparison.pictures.method_styles import style_of
from poet_planner.report.figures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

PRINT: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": INK, "zorder": 20}
# Where a name may stand beside a point; the first place that is free is taken.
OFFSETS = ((4, 4), (4, -9), (0, 7), (0, -12), (7, -3))
SPACING = 2.0  # pixels: as near as points along a curve are asked whether a name covers them


def label_curves(figure: Figure, axis: Axes, curves: Sequence[Curve]) -> None:
    """Write names beside curves, where they cover neither a curve nor another name; the legend has them all."""
    figure.canvas.draw()
    drawn = np.vstack([_pixels(axis, curve) for curve in curves])
    names: list[Bbox] = []
    for curve in curves:
        for place, offset in product(zip(curve.x, curve.y, strict=True), OFFSETS):
            text = axis.annotate(style_of(curve.method).label, place, offset, **PRINT)
            box = text.get_window_extent()
            if _contains(axis.bbox, box) and not any(map(box.overlaps, names)) and not _touches(box, drawn):
                names.append(box)
                break
            text.remove()


def _pixels(axis: Axes, curve: Curve) -> np.ndarray:
    """Points along a curve as it is drawn; shape (points, 2)."""
    corners = axis.transData.transform(np.column_stack([curve.x, curve.y]))
    pieces = [corners[-1:]]
    for start, end in pairwise(corners):
        steps = max(2, int(np.hypot(*(end - start)) / SPACING))
        pieces.append(start + (end - start) * np.linspace(0, 1, steps)[:, None])
    return np.vstack(pieces)


def _contains(outer: Bbox, inner: Bbox) -> bool:
    return bool(outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1)


def _touches(box: Bbox, points: np.ndarray) -> bool:
    """Whether a point lies in a box or within two pixels of it."""
    x, y = points.T
    return bool(np.any((x > box.x0 - 2) & (x < box.x1 + 2) & (y > box.y0 - 2) & (y < box.y1 + 2)))
