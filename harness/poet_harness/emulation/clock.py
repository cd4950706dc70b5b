# SPDX-License-Identifier: Apache-2.0
"""Emulated time: CPU cycles executed, and cycles skipped while the CPU slept or polled for what is due later."""

from __future__ import annotations

from .counter import Counter


class Clock:
    """Time in CPU cycles since power-on. It moves on with every block executed, and with `advance_to`.

    Parameters
    ----------
    counter : Counter
        The cycle counter of the CPU.
    hz : int
        The CPU's clock rate.
    """

    def __init__(self, counter: Counter, hz: int) -> None:
        self.hz = hz
        self.counter = counter

    @property
    def now(self) -> int:
        """Cycles since power-on."""
        return int(self.counter.cycles)

    def advance_to(self, cycles: int) -> None:
        """Skip ahead, if that time has not come yet."""
        if cycles > self.counter.cycles:
            self.counter.cycles = cycles

    def cycles(self, seconds: float) -> int:
        """A duration in cycles, at least one."""
        return max(1, round(seconds * self.hz))

    def pass_by(self, seconds: float) -> None:
        """Skip ahead by a duration."""
        self.advance_to(self.now + self.cycles(seconds))
