# SPDX-License-Identifier: Apache-2.0
"""Energy against RAM, a curve a method: the POET paper's Figure 3, and with a logarithmic overhead its Figure 5."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from poet_planner.comparison.pictures.byte_axis import byte_axis
from poet_planner.comparison.pictures.curves import Curve, curves_of
from poet_planner.comparison.pictures.panels import Panel, deadline_text, draw_panels, panels_of
from poet_planner.comparison.pictures.ratio_axis import percent_above, percent_axis, ratio_axis
from poet_planner.comparison.sweep_table import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def energy_vs_ram(points: Iterable[Point]) -> Figure:
    """A panel a model, board and deadline: energy in multiples of the store-all one, on a logarithmic axis.

    A curve far above poet's, or the first one's, leaves the picture.
    """

    def scale(axis: Axes, panel: Panel, curves: list[Curve]) -> None:
        _scale_ram(axis, panel)
        ratio_axis(axis, seen=max(curves[0].y))

    labels = "RAM", "energy, \u00d7 store-all"
    return draw_panels(
        panels_of(points, deadline_text), lambda panel: curves_of(panel.points, _ram), scale, labels
    )  # fmt: skip


def overhead_log(points: Iterable[Point]) -> Figure:
    """The same with the energy above the store-all schedule's, in % of it, so that small overheads are told apart."""

    def scale(axis: Axes, panel: Panel, _curves: list[Curve]) -> None:
        _scale_ram(axis, panel)
        percent_axis(axis)

    labels = "RAM", "above store-all, %"
    return draw_panels(
        panels_of(points, deadline_text), lambda panel: curves_of(panel.points, _ram, percent_above), scale, labels
    )


def _ram(point: Point) -> float:
    return float(point.ram_budget_bytes)


def _scale_ram(axis: Axes, panel: Panel) -> None:
    """From the least to the most RAM in which any method has a schedule."""
    rams = [point.ram_budget_bytes for point in panel.points if point.energy_j is not None]
    spec = axis.get_subplotspec()
    narrow = spec is not None and spec.get_gridspec().ncols > 2
    byte_axis(axis, min(rams), max(rams), ticks=2 if narrow else 3)
    axis.set_xlim(min(rams) / 1.12, max(rams) * 1.12)
