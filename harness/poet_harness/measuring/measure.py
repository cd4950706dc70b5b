# SPDX-License-Identifier: Apache-2.0
"""Measuring one configuration: warm-up, then windows until median time and energy are known well enough."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poet_profiles.errors import NO_DEVICE, UserError

from ..meters.meter import Activity, Mark, Meter, MeterError, Window
from ..protocol.device import Timing

# Two-sided 95 % quantiles of Student's t for 1, 2, 3 ... degrees of freedom; 1.96 beyond.
STUDENT_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11)
MOST_CALLS = 65_535
UNUSABLE_IN_A_ROW = 5

Call = Callable[[int, float], Timing]
"""Runs a configuration a number of times inside one window; given how often, and how long that should take."""


@dataclass(frozen=True)
class Effort:
    """When a configuration has been measured well enough.

    Parameters
    ----------
    confidence : float
        Half width of the 95 % confidence interval, relative to the mean, at which to stop.
    fewest, most : int
        Windows to measure at least and at most.
    """

    confidence: float = 0.01
    fewest: int = 3
    most: int = 20


@dataclass(frozen=True)
class Measurement:
    """Median and standard deviation of one call, over windows of several calls each.

    ``energy_j`` is that above the idle power, and below zero where the board drew less. ``cpu_hz`` and
    ``temperature_c`` are what the board's sensors showed at the end of each window; empty for a board without them.
    """

    time_s: float
    time_s_std: float
    energy_j: float
    energy_j_std: float
    repeats: int
    bytes: int
    workspace_bytes: int
    cpu_hz: tuple[float, ...] = ()
    temperature_c: tuple[float, ...] = ()


def measure(call: Call, activity: Activity, meter: Meter, effort: Effort, idle_power_w: float = 0.0) -> Measurement:
    """Measure one configuration.

    Parameters
    ----------
    idle_power_w : float
        Taken off the power of every window.

    Raises
    ------
    UserError
        If the meter fails several times in a row, or contradicts the device's clock.
    """
    warm = call(1, 0.0)
    one_s = max(warm.work_s, 1e-9)
    repeats = max(1, min(MOST_CALLS, math.ceil(meter.shortest_window_s / one_s)))
    timings: list[Timing] = []
    times_s: list[float] = []
    energies_j: list[float] = []
    while len(times_s) < effort.most:
        timing, window = _window(lambda: call(repeats, repeats * one_s), activity, meter)
        timings.append(timing)
        times_s.append(timing.work_s / repeats)
        energies_j.append((window.energy_j - idle_power_w * timing.work_s) / repeats)
        enough = len(times_s) >= effort.fewest
        if enough and _certain(times_s, effort) and _certain(energies_j, effort):
            break
    return Measurement(
        time_s=statistics.median(times_s),
        time_s_std=spread(times_s),
        energy_j=statistics.median(energies_j),
        energy_j_std=spread(energies_j),
        repeats=repeats * len(times_s),
        bytes=warm.bytes,
        workspace_bytes=warm.workspace_bytes,
        cpu_hz=tuple(timing.cpu_hz for timing in timings if timing.cpu_hz is not None),
        temperature_c=tuple(timing.temperature_c for timing in timings if timing.temperature_c is not None),
    )


def _window(call: Callable[[], Timing], activity: Activity, meter: Meter) -> tuple[Timing, Window]:
    """One usable window: a recording that lost samples, or lost the window, is made again."""
    reason = ""
    for _ in range(UNUSABLE_IN_A_ROW):
        meter.begin()
        timing = call()
        try:
            [window] = meter.end([Mark(activity, timing.work_s, timing.host_start_s, timing.host_end_s)])
        except MeterError as error:
            reason = str(error)
            continue
        reason = window.fault(timing.work_s)
        if not reason:
            return timing, window.with_device_time(timing.work_s)
    raise UserError(
        f"{meter.identity}: {UNUSABLE_IN_A_ROW} unusable recordings in a row, the last: {reason}", NO_DEVICE
    )


def _certain(values: Sequence[float], effort: Effort) -> bool:
    if len(values) < 2:
        return effort.fewest < 2
    freedom = len(values) - 2
    quantile = STUDENT_T[freedom] if freedom < len(STUDENT_T) else 1.96
    half_width = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return half_width <= effort.confidence * statistics.fmean(values)


def spread(values: Sequence[float]) -> float:
    """Standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
