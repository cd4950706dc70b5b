# SPDX-License-Identifier: Apache-2.0
"""Energy against the deadline, a curve a method: the POET paper's Figure 4."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.curves import Curve, curves_of
from poet_planner.comparison.pictures.panels import Panel, draw_panels, panels_of, ram_text
from poet_planner.comparison.pictures.ratio_axis import percent_above, percent_axis
from poet_planner.comparison.sweep_table import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


def energy_vs_deadline(points: Iterable[Point]) -> Figure:
    """A panel a model, board and RAM budget: energy above the store-all schedule's, in %, on a logarithmic axis.

    Raises
    ------
    UserError
        If no point has a deadline.
    """
    limited = [point for point in points if point.deadline_of_plain is not None]
    if not limited:
        raise UserError("--figure energy-vs-deadline: no point has a deadline; sweep with --deadline 1.2x and others")

    def scale(axis: Axes, panel: Panel, _curves: list[Curve]) -> None:
        percent_axis(axis)
        _scale_deadlines(axis, panel)

    labels = "deadline, \u00d7 store-all", "above store-all, %"
    return draw_panels(
        panels_of(limited, ram_text), lambda panel: curves_of(panel.points, _deadline, percent_above), scale, labels
    )


def _deadline(point: Point) -> float:
    assert point.deadline_of_plain is not None
    return point.deadline_of_plain


def _scale_deadlines(axis: Axes, panel: Panel) -> None:
    """Deadlines lie close together near the store-all time, so they stand by what they leave beyond it."""
    from matplotlib.ticker import NullLocator

    deadlines = sorted({_deadline(point) for point in panel.points})
    axis.set_xscale("function", functions=(_spread, _gather))
    axis.set_xlim(min(0.995, deadlines[0] - 0.005), deadlines[-1] * 1.05)
    axis.set_xticks(deadlines, [f"{deadline:.4g}\u00d7" for deadline in deadlines], rotation=90)
    axis.xaxis.set_minor_locator(NullLocator())


def _spread(deadline: ArrayLike) -> np.ndarray:
    return np.asarray(np.cbrt(np.asarray(deadline) - 1))


def _gather(place: ArrayLike) -> np.ndarray:
    return np.asarray(1 + np.asarray(place) ** 3)
