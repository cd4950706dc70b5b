# SPDX-License-Identifier: Apache-2.0
"""Drift of a board that has sensors: a clock that changes, or a core that grows warm, while it is measured."""

from __future__ import annotations

from ..measuring.measure import Measurement

MOST_CLOCK_CHANGE = 0.01
MOST_WARMING_C = 5.0


class DriftWatch:
    """What the sensors showed over a run.

    A clock may fall behind the highest that the run has seen (the board throttles itself, or saves power); within one
    measurement it may change as well, and so may the temperature. A board without sensors never drifts.

    Attributes
    ----------
    temperatures_c : tuple of float
        Lowest and highest of the run; empty without a sensor.
    """

    def __init__(self) -> None:
        self.temperatures_c: tuple[float, ...] = ()
        self._fastest_hz = 0.0

    def drift(self, measured: Measurement) -> str:
        """What has drifted during a measurement or since earlier ones, in words; empty if nothing has."""
        clocks_hz, temperatures_c = measured.cpu_hz, measured.temperature_c
        if temperatures_c:
            seen_c = (*self.temperatures_c, *temperatures_c)
            self.temperatures_c = (min(seen_c), max(seen_c))
        if clocks_hz:
            self._fastest_hz = max(self._fastest_hz, *clocks_hz)
            if min(clocks_hz) < (1 - MOST_CLOCK_CHANGE) * self._fastest_hz:
                return f"clock at {min(clocks_hz) / 1e6:.0f} MHz, at its fastest {self._fastest_hz / 1e6:.0f} MHz"
        if temperatures_c and abs(temperatures_c[-1] - temperatures_c[0]) > MOST_WARMING_C:
            return f"{temperatures_c[0]:.1f} degrees Celsius at its first window, {temperatures_c[-1]:.1f} at its last"
        return ""
