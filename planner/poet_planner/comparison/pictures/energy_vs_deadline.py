# SPDX-License-Identifier: Apache-2.0
"""Energy against the deadline, a curve a method: the POET paper's Figure 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError

from poet_planner.comparison.pictures.curves import Curve, curves_of, lack_mark
from poet_planner.comparison.pictures.method_styles import in_legend_order
from poet_planner.comparison.pictures.panels import Panel, draw_panels, panels_of, ram_text
from poet_planner.comparison.pictures.ratio_axis import percent_above, percent_axis
from poet_planner.comparison.sweep_table import LACKS, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

# From the latest deadline to what has none, as the axis is spread.
BEYOND = 0.25


def energy_vs_deadline(points: Iterable[Point]) -> Figure:
    """A panel a model, board and RAM budget: energy above the store-all schedule's, in %, on a logarithmic axis.

    What has no deadline stands to the right of the latest one. Marks on the axis tell where no method has a schedule.

    Raises
    ------
    UserError
        If no point has a deadline.
    """
    listed = list(points)
    deadlines = [point.deadline_of_plain for point in listed if point.deadline_of_plain is not None]
    if not deadlines:
        raise UserError("--figure energy-vs-deadline: no point has a deadline; sweep with --deadline 1.2x and others")
    unlimited = float(_gather(_spread(max(deadlines)) + BEYOND))

    def across(point: Point) -> float:
        return unlimited if point.deadline_of_plain is None else point.deadline_of_plain

    def scale(axis: Axes, panel: Panel, _curves: list[Curve]) -> None:
        percent_axis(axis)
        _scale_deadlines(axis, sorted({across(point) for point in panel.points}), unlimited)
        _mark_what_none_keeps(axis, panel, across)

    labels = "deadline, \u00d7 store-all", "above store-all, %"
    return draw_panels(
        panels_of(listed, ram_text), lambda panel: curves_of(panel.points, across, percent_above), scale, labels
    )


def _scale_deadlines(axis: Axes, places: list[float], unlimited: float) -> None:
    """Deadlines lie close together near the store-all time, so they stand by what they leave beyond it."""
    from matplotlib.ticker import NullLocator

    axis.set_xscale("function", functions=(_spread, _gather))
    axis.set_xlim(min(0.995, places[0] - 0.005), places[-1] * 1.05)
    names = ["none" if place == unlimited else f"{place:.4g}\u00d7" for place in places]
    axis.set_xticks(places, names, rotation=90)
    axis.xaxis.set_minor_locator(NullLocator())


def _mark_what_none_keeps(axis: Axes, panel: Panel, across: Callable[[Point], float]) -> None:
    """By the status of poet, or of the first method: poet is given all others' schedules."""
    kept = {across(point) for point in panel.points if point.energy_j is not None}
    first = in_legend_order({point.method for point in panel.points})[0]
    why = {across(point): point.status for point in panel.points if point.method == first}
    for status, words in LACKS.items():
        places = [place for place, said in why.items() if place not in kept and said == status]
        if places:
            on_axis = {"transform": axis.get_xaxis_transform(), "clip_on": False, **lack_mark(status)}
            axis.plot(places, [0.0] * len(places), label=words, **on_axis)


def _spread(deadline: ArrayLike) -> np.ndarray:
    return np.asarray(np.cbrt(np.asarray(deadline) - 1))


def _gather(place: ArrayLike) -> np.ndarray:
    return np.asarray(1 + np.asarray(place) ** 3)
