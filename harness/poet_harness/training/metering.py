# SPDX-License-Identifier: Apache-2.0
"""Energies above the idle power of the sleeping board.

Where the meter fails, energies are not known, and work goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from ..measuring.idle import measure_idle
from ..measuring.measure import Effort
from ..meters.meter import Activity, Mark, Meter, MeterError
from ..protocol.device import Device, InferenceReport, StepReport

Report = TypeVar("Report", StepReport, InferenceReport)


class Metering:
    """A meter, and what the sleeping board draws.

    Attributes
    ----------
    meter : Meter
    idle_power_w : float
        NaN until it is measured.
    unmetered : list of str
        Why an energy is not known, one reason each.
    """

    def __init__(self, meter: Meter, idle_power_w: float = math.nan) -> None:
        self.meter = meter
        self.idle_power_w = idle_power_w
        self.unmetered: list[str] = []

    def measure_idle(self, device: Device) -> None:
        """Measure the sleeping board, once."""
        if math.isnan(self.idle_power_w):
            idle = measure_idle(device, self.meter, Effort(fewest=1, most=1))
            self.idle_power_w = idle.energy_j / idle.time_s

    def around(self, run: Callable[[], Report]) -> tuple[Report, float | None]:
        """What something reports, and the energy that it drew."""
        self.meter.begin()
        report = run()
        return report, self.end(report)

    def end(self, report: StepReport | InferenceReport) -> float | None:
        """End a recording of one piece of work."""
        [energy_j] = self.energies([Mark(Activity.STEP, report.work_s, report.host_start_s, report.host_end_s)])
        return energy_j

    def energies(self, marks: list[Mark]) -> list[float | None]:
        """End a recording of several."""
        try:
            windows = self.meter.end(marks)
        except MeterError as error:
            self.unmetered.append(str(error))
            return [None] * len(marks)
        energies: list[float | None] = []
        for window, mark in zip(windows, marks, strict=True):
            if fault := window.fault(mark.device_s):
                self.unmetered.append(fault)
                energies.append(None)
            else:
                drawn_j = window.with_device_time(mark.device_s).energy_j
                energies.append(drawn_j - self.idle_power_w * mark.device_s)
        return energies
