# SPDX-License-Identifier: Apache-2.0
"""Logarithmic axes of energy with ticks in plain numbers: 1, 1.2, 2; 0.1 %, 1 %, 10 %."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A curve above it, and above the one that has to be seen, leaves the picture at the top: it would flatten all others.
MOST = 3.0
FLOOR = 0.01
# Above the highest point, so that it is whole.
MARGIN = 1.02
# Powers of ten below which ticks stand between them, too.
FEW = 4
RATIOS = (
    (1.0, 1.001, 1.002, 1.003, 1.004, 1.005),
    (1.0, 1.01, 1.02, 1.03, 1.04, 1.05),
    (1.0, 1.05, 1.1, 1.15, 1.2, 1.25),
    (1.0, 1.1, 1.2, 1.3, 1.4, 1.5),
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0),
    (1.0, 2.0, 3.0, 5.0, 10.0),
    tuple(10.0**power for power in range(300)),
)


def ratio_axis(axis: Axes, seen: float) -> None:
    """Scale the vertical axis for energies in multiples of the store-all one; ``seen`` is in the picture anyway."""
    axis.set_yscale("log")
    most = min(max(MOST, 1.1 * seen), MARGIN * axis.get_ylim()[1])
    axis.set_ylim(min(most**-0.04, axis.dataLim.y0), most)
    ticks = next(ticks for ticks in RATIOS if ticks[-1] >= most)
    axis.set_yticks([tick for tick in ticks if tick <= most], [f"{tick:g}" for tick in ticks if tick <= most])
    axis.set_yticks([], minor=True)


def percent_above(multiple: float) -> float:
    """By how many per cent a multiple is above one, and at least FLOOR, since a logarithmic axis has no zero."""
    return max(FLOOR, 100 * (multiple - 1))


def percent_axis(axis: Axes) -> None:
    """Scale the vertical axis for overheads in %, by powers of ten from FLOOR on, which stands for all below it."""
    axis.set_yscale("log")
    most = 1.2 * axis.get_ylim()[1]
    axis.set_ylim(FLOOR / 1.4, most)
    powers = range(round(math.log10(FLOOR)), math.floor(math.log10(most)) + 1)
    steps = (1, 2, 5) if len(powers) < FEW else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps if step * 10.0**power <= most]
    axis.set_yticks(ticks, [f"\u2264 {ticks[0]:g}", *(f"{tick:g}" for tick in ticks[1:])])
    axis.set_yticks([], minor=True)
