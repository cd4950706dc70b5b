# SPDX-License-Identifier: Apache-2.0
"""The interface of a power meter, and what it hands back.

    meter.begin()
    timing = device.bench(...)
    [window] = meter.end([Mark(Activity.COMPUTE, timing.work_s, timing.host_start_s, timing.host_end_s)])

A meter that samples the board's window line finds the windows itself; one that does not takes them from the marks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

LONGEST_EDGE_SAMPLES = 2.0
# A window that lost a larger share of its samples is not used, nor one whose length differs by more from the device's:
# a meter may not notice all that it loses. Boards and meters have crystals, which agree better than that.
MOST_LOST = 0.001


class MeterError(Exception):
    """A recording that cannot be used: windows are missing, or too many samples were lost. Measure again."""


class Activity(StrEnum):
    """What the board does inside a window."""

    COMPUTE = "compute"
    PAGE_IN = "page_in"
    PAGE_OUT = "page_out"
    IDLE = "idle"
    STEP = "step"


@dataclass(frozen=True)
class Mark:
    """A window as device and host saw it: the device's own time, and the host's monotonic clock around it."""

    activity: Activity
    device_s: float
    host_start_s: float
    host_end_s: float


@dataclass(frozen=True)
class Window:
    """A window as the meter saw it.

    Parameters
    ----------
    duration_s, energy_j : float
        Between the edges, by the meter's own clock.
    samples, lost : int
        Samples between the edges, and how many of them never arrived. Lost ones count in the duration, and in the
        energy with the mean power of the others.
    period_s : float
        Time between two samples; 0 where the edges are exact.
    edge_power_w : float
        Mean of the powers at the two edges.
    """

    duration_s: float
    energy_j: float
    samples: int
    lost: int = 0
    period_s: float = 0.0
    edge_power_w: float = 0.0

    @property
    def lost_share(self) -> float:
        return self.lost / self.samples if self.samples else 0.0

    def fault(self, device_s: float) -> str:
        """Why the window must not be used, in words; empty if it may. ``device_s`` is its length by the device."""
        if self.lost_share > MOST_LOST:
            return f"{self.lost_share:.2%} of the samples lost"
        if abs(self.duration_s - device_s) > MOST_LOST * device_s + LONGEST_EDGE_SAMPLES * self.period_s:
            return f"a window of {self.duration_s:.6f} s where the device counted {device_s:.6f} s"
        return ""

    def with_device_time(self, device_s: float) -> Window:
        """The window with its edges placed between samples.

        A window line that is sampled gives each edge to one sample period. The device knows the length exactly; what
        it differs by is added at the power of the edges, as long as it is no more than two sample periods. Anything
        longer is a real disagreement and stays visible in ``duration_s``.
        """
        missing_s = device_s - self.duration_s
        if abs(missing_s) > LONGEST_EDGE_SAMPLES * self.period_s:
            return self
        return replace(self, duration_s=device_s, energy_j=self.energy_j + missing_s * self.edge_power_w)


class Meter(ABC):
    """One instrument.

    Attributes
    ----------
    identity : str
        Name, serial number and calibration, as it goes into the profile.
    voltage_v : float
        Supply voltage during the measurement.
    source : str
        ``measured``, or ``emulated`` without a real instrument.
    senses : bool
        Whether it reads anything; False where energies follow from times alone.
    shortest_window_s : float
        A window this long is measured well; the harness repeats an operator until its window is.
    power_step_w : float
        Smallest difference between two powers that it shows; 0 if it shows finer ones than anybody needs.
    most_a : float
        The largest current that it measures.
    """

    identity: str
    voltage_v: float
    source: str = "measured"
    senses: bool = True
    shortest_window_s: float = 0.1
    power_step_w: float = 0.0
    most_a: float = math.inf

    @property
    def steps(self) -> str:
        """How finely it shows a power, in words that follow one; empty where that is fine enough."""
        return f" (the meter shows steps of {self.power_step_w * 1e3:.3g} mW)" if self.power_step_w else ""

    @abstractmethod
    def begin(self) -> None:
        """Start to record. Returns when recording is under way."""

    @abstractmethod
    def end(self, marks: Sequence[Mark]) -> list[Window]:
        """Stop, and return one window a mark, in order.

        Raises
        ------
        MeterError
            If the recording does not hold as many windows.
        """

    def synchronise(self, idle: Callable[[float], tuple[float, float]]) -> None:  # noqa: B027 - most need nothing
        """Align a meter that has no window line with the host's clock, before the first measurement.

        Parameters
        ----------
        idle : callable
            Lets the board sleep for so many seconds, and returns when that began by the host's clock and how long it
            took by the board's.
        """

    def close(self) -> None:  # noqa: B027 - most instruments need nothing
        """Let the instrument go."""
