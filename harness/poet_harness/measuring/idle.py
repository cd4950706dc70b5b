# SPDX-License-Identifier: Apache-2.0
"""The power that a board draws asleep: every energy counts from there."""

from __future__ import annotations

from ..meters.meter import Activity, Meter
from ..protocol.device import Device
from .measure import Effort, Measurement, measure

IDLE_WINDOWS = 10


def measure_idle(device: Device, meter: Meter, effort: Effort) -> Measurement:
    """Measure the sleeping board, in windows ten times as long as the meter needs. Energies are all that it draws."""
    window_s = IDLE_WINDOWS * meter.shortest_window_s
    return measure(lambda _repeats, _s: device.idle(window_s), Activity.IDLE, meter, effort)
