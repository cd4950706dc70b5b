# SPDX-License-Identifier: Apache-2.0
"""An axis of bytes: logarithmic to the base of two, with few ticks at amounts that people use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from poet_planner.report.quantities import byte_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Finer and finer parts of a doubling; the first that gives enough ticks is taken.
STEPS = ((1.0,), (1.0, 1.5), (1.0, 1.25, 1.5, 1.75), tuple(1 + eighth / 8 for eighth in range(8)))


def byte_axis(axis: Axes, least: float, most: float, ticks: int = 4) -> None:
    """Scale the horizontal axis for amounts between ``least`` and ``most`` bytes."""
    axis.set_xscale("log", base=2)
    places = byte_ticks(least, most, ticks)
    axis.set_xticks(places, [_text(place) for place in places])
    axis.set_xticks([], minor=True)


def byte_ticks(least: float, most: float, ticks: int) -> list[float]:
    """Amounts between two: powers of two if these are ``ticks`` or more, else parts of them; fewer than twice as many.

    Where even eighths of a doubling are too coarse, the two themselves.
    """
    found: list[float] = []
    for steps in STEPS:
        doublings = range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)
        found = [step * 2.0**power for power in doublings for step in steps if least <= step * 2.0**power <= most]
        if len(found) >= ticks:
            break
    every = -(-len(found) // (2 * ticks - 1))
    return found[::every] if found else sorted({least, most})


def _text(count: float) -> str:
    unit, scale = byte_unit(int(count))
    return f"{count / scale:.4g} {unit}"
