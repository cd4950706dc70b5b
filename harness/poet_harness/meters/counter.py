# SPDX-License-Identifier: Apache-2.0
"""Energy counters that wrap."""

from __future__ import annotations

import time
from collections.abc import Callable

from .meter import MeterError

# A processor draws at times more than its mean, and more than it is rated for.
HEADROOM = 2.0


class WrappingCounter:
    """Energy since the first reading, across wraps.

    Two readings show one wrap at most. Where more could have passed between them at the power that the counter has
    shown, or that it is rated for, nobody knows the energy.

    Parameters
    ----------
    read_j : callable
        Where the counter stands, in joule.
    range_j : float
        Where it wraps; 0 if nobody says.
    rated_w : float
        Power that what it counts is rated for; 0 if nobody says.
    """

    def __init__(self, read_j: Callable[[], float], range_j: float, rated_w: float = 0.0) -> None:
        self._read_j = read_j
        self._range_j = range_j
        self._rated_w = rated_w
        self.restart()

    def restart(self) -> None:
        """Count from the next reading on."""
        self._last_j: float | None = None
        self._total_j = 0.0
        self._began_s = self._last_s = 0.0

    def joules(self) -> float:
        """Read it.

        Raises
        ------
        MeterError
            If it may have wrapped more than once since the last reading, or has wrapped and nobody says where.
        OSError
            If it cannot be read.
        """
        now_j, now_s = self._read_j(), time.monotonic()
        if self._last_j is None:
            self._began_s = now_s
        else:
            self._total_j += self._step_j(now_j - self._last_j, now_s - self._last_s)
        self._last_j, self._last_s = now_j, now_s
        return self._total_j

    def _step_j(self, step_j: float, gap_s: float) -> float:
        known_s = self._last_s - self._began_s
        power_w = max(self._rated_w, self._total_j / known_s if known_s > 0 else 0.0)
        if not self._range_j:
            if step_j < 0:
                raise MeterError("an energy counter went back, and the system does not say where it wraps")
            return step_j
        if gap_s * HEADROOM * power_w >= self._range_j:
            raise MeterError(f"an energy counter may have wrapped more than once within {gap_s:.3f} s")
        return step_j % self._range_j
