# SPDX-License-Identifier: Apache-2.0
"""Meters that are read again and again by the host's clock: power sensors and energy counters of a Linux system."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from poet_profiles.errors import NO_DEVICE, UserError

from .alignment import align
from .intervals import cut
from .meter import Mark, Meter, MeterError, Window
from .recorded import Recording

LONGEST_GAP = 3.5
LONGEST_READING_S = 1.0
LEAD_S = 0.2
PATTERN = 4


class ClockedMeter(Meter):
    """Reads a value every few milliseconds in a thread, and cuts windows at the host's clock.

    A window begins with the board's acknowledgement, moved by the delay that :meth:`synchronise` found, and lasts as
    long as the board says. The sensors average over milliseconds, so windows are long.

    Parameters
    ----------
    read : callable
        Present power in watt, or energy so far in joule; raises OSError when the sensor is gone.
    is_energy : bool
        Which of the two it is.
    identity : str
        As it goes into the profile.
    voltage_v : float
        Supply voltage.
    period_s : float
        Time between two readings.
    restart : callable, optional
        Called before the first reading of each recording: a counter that keeps its last one forgets it.
    """

    shortest_window_s = 1.0

    def __init__(
        self,
        read: Callable[[], float],
        is_energy: bool,
        identity: str,
        voltage_v: float,
        period_s: float = 0.002,
        restart: Callable[[], None] = lambda: None,
    ) -> None:
        self.identity = identity
        self.voltage_v = voltage_v
        self._read = read
        self._is_energy = is_energy
        self._period_s = period_s
        self._restart = restart
        self._delay_s = 0.0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def begin(self) -> None:
        self._halt()
        self._stop.clear()
        self._started = threading.Event()
        self._failure: OSError | MeterError | None = None
        self._restart()
        self._times_s: list[float] = []
        self._values: list[float] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        self._started.wait()

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        starts_s = [mark.host_start_s + self._delay_s for mark in marks]
        if any(math.isnan(start_s) for start_s in starts_s):
            raise MeterError("an acknowledgement of the board was lost, so nobody knows when the window began")
        spans = [(start_s, start_s + mark.device_s) for start_s, mark in zip(starts_s, marks, strict=True)]
        self._await_reading(max(end_s for _, end_s in spans))
        recording = self._recording()
        # A sensor behind a slow bus gives what it gives; lost is what is missing beside its own pace.
        period_s = max(self._period_s, float(np.median(np.diff(recording.times_s))))
        return [cut(recording, start_s, end_s, period_s, LONGEST_GAP) for start_s, end_s in spans]

    def synchronise(self, idle: Callable[[float], tuple[float, float]]) -> None:
        """Let the board sleep a few times, and find by how much the sensor shows it late."""
        self.begin()
        time.sleep(LEAD_S)
        spans = []
        for _ in range(PATTERN):
            start_s, slept_s = idle(LEAD_S)
            if not math.isnan(start_s):
                spans.append((start_s, start_s + slept_s))
            time.sleep(LEAD_S)
        time.sleep(LEAD_S)
        try:
            recording = self._recording()
        except MeterError as error:
            raise UserError(f"{self.identity}: {error}", NO_DEVICE) from None
        alignment = align(recording, spans, self._period_s / 2) if spans else None
        if alignment is None:
            self.identity += ", not aligned (sleeping board draws the same)"
        else:
            self._delay_s = alignment.delay_s
            self.identity += f", aligned by {alignment.delay_s * 1e3:.1f} +- {alignment.residual_s * 1e3:.1f} ms"

    def close(self) -> None:
        self._halt()

    def _await_reading(self, instant_s: float) -> None:
        """Wait for a reading after an instant, at most a second longer; there may be none, if the sensor is gone."""
        latest_s = instant_s + LONGEST_READING_S
        while not self._failure and self._times_s[-1] <= instant_s and time.monotonic() < latest_s:
            time.sleep(self._period_s)

    def _halt(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
            self._thread = None

    def _sample(self) -> None:
        next_s = time.monotonic()
        while not self._stop.is_set():
            before_s = time.monotonic()
            try:
                value = self._read()
            except (OSError, MeterError) as error:
                self._failure = error
                break
            self._times_s.append((before_s + time.monotonic()) / 2)
            self._values.append(value)
            self._started.set()
            next_s = max(next_s + self._period_s, time.monotonic())
            self._stop.wait(next_s - time.monotonic())
        self._started.set()

    def _recording(self) -> Recording:
        """Stop, and take what was read."""
        self._halt()
        if isinstance(self._failure, MeterError):
            raise self._failure
        if self._failure:
            raise UserError(f"{self.identity}: cannot be read any more: {self._failure}", NO_DEVICE)
        if len(self._times_s) < 2:
            raise MeterError("fewer than two readings")
        times_s, values = np.array(self._times_s), np.array(self._values)
        if self._is_energy:
            if (np.diff(values) < 0).any():
                raise MeterError("an energy counter went back: it was reset, or has wrapped")
            return Recording(times_s, None, values - values[0])
        return Recording.of_power(times_s, values)
