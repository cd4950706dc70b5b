# SPDX-License-Identifier: Apache-2.0
"""The emulated meter: samples the emulated board's supply current and window line like an instrument with 100 kS/s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..meters.meter import Mark, Meter, Window
from ..meters.sampled import WindowIntegrator, assign

if TYPE_CHECKING:
    from .emulated_board import EmulatedBoard
    from .power import Trace

PERIOD_S = 1e-5


class EmulatedMeter(Meter):
    """Reads the current that the emulated board draws by its board file's rails; nothing of it was measured."""

    source = "emulated"
    shortest_window_s = 0.01

    def __init__(self, emulated: EmulatedBoard, voltage_v: float) -> None:
        self.identity = f"emulated meter 100 kS/s, {emulated.timing_model}"
        self.voltage_v = voltage_v
        self._emulated = emulated

    def begin(self) -> None:
        self._emulated.power_trace()

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        integrator = WindowIntegrator(PERIOD_S)
        self._sample(self._emulated.power_trace(), integrator)
        return assign(integrator.windows, marks, PERIOD_S)

    def _sample(self, trace: Trace, integrator: WindowIntegrator) -> None:
        """Mean current of each sample period, and the window line in its middle."""
        first, last = np.ceil(trace.times_s[0] / PERIOD_S), np.floor(trace.times_s[-1] / PERIOD_S)
        if last <= first:
            return
        edges_s = np.arange(first, last + 1) * PERIOD_S
        charge_c = np.concatenate(([0.0], np.cumsum(trace.current_a * np.diff(trace.times_s))))
        current_a = np.diff(np.interp(edges_s, trace.times_s, charge_c)) / PERIOD_S
        piece = np.searchsorted(trace.times_s, edges_s[:-1] + PERIOD_S / 2, side="right") - 1
        integrator.feed(current_a * self.voltage_v, trace.window[np.clip(piece, 0, len(trace.window) - 1)])
