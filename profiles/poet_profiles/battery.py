# SPDX-License-Identifier: Apache-2.0
"""What a battery gives to a board."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_AN_HOUR = 3600.0
USABLE = 0.85  # less than all: a cell is cold or old, or the board stops before it is empty
EFFICIENCY = 0.9  # of a small buck-boost converter at a few milliampere


@dataclass(frozen=True)
class Battery:
    """Cells, and how much of what they hold arrives at the board.

    Attributes
    ----------
    count : int
        Cells, all alike.
    usable : float
        Share of the capacity until the board's supply is too low.
    efficiency : float
        Of the converter between battery and board.
    """

    capacity_ah: float
    voltage_v: float
    count: int = 1
    usable: float = USABLE
    efficiency: float = EFFICIENCY

    @property
    def energy_j(self) -> float:
        """What arrives at the board."""
        held_j = self.count * self.capacity_ah * SECONDS_AN_HOUR * self.voltage_v
        return held_j * self.usable * self.efficiency
