# SPDX-License-Identifier: Apache-2.0
"""From a stream of power samples and a sampled window line to windows, block by block, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .meter import Mark, MeterError, Window


def assign(windows: Sequence[Window], marks: Sequence[Mark], period_s: float) -> list[Window]:
    """One window a mark, in order.

    A mark shorter than a sample period can fall between two samples. Where windows are missing, short marks are left
    out so that the lengths of the others agree best with their windows; each left out gets its own length at the
    power of the window before it (or after it, for the first).

    Raises
    ------
    MeterError
        If there are too many windows, or one is missing that was long enough to be seen.
    """
    unseen = _unseen(windows, marks, period_s)
    if unseen is None or not windows:
        raise MeterError(f"{len(windows)} windows recorded, {len(marks)} expected")
    seen = iter(windows)
    power_w = windows[0].edge_power_w
    assigned = []
    for place, mark in enumerate(marks):
        if place in unseen:
            assigned.append(Window(mark.device_s, mark.device_s * power_w, samples=0))
        else:
            assigned.append(next(seen))
            power_w = assigned[-1].edge_power_w
    return assigned


def _unseen(windows: Sequence[Window], marks: Sequence[Mark], period_s: float) -> set[int] | None:
    """Places of the marks to leave out, by dynamic programming over how many have been left out so far."""
    missing = len(marks) - len(windows)
    if missing < 0:
        return None
    costs = [0.0] + [math.inf] * missing
    left_out: list[list[bool]] = []
    for place, mark in enumerate(marks):
        choices = [False] * (missing + 1)
        following = [math.inf] * (missing + 1)
        for skipped in range(missing + 1):
            window = place - skipped
            if 0 <= window < len(windows):
                following[skipped] = costs[skipped] + abs(windows[window].duration_s - mark.device_s)
            if skipped and mark.device_s < 1.1 * period_s and costs[skipped - 1] < following[skipped]:
                following[skipped], choices[skipped] = costs[skipped - 1], True
        costs = following
        left_out.append(choices)
    if costs[missing] == math.inf:
        return None
    unseen = set()
    skipped = missing
    for place in reversed(range(len(marks))):
        if left_out[place][skipped]:
            unseen.add(place)
            skipped -= 1
    return unseen


class WindowIntegrator:
    """Adds up the energy of every stretch in which the window line is high.

    A lost sample is a NaN: it takes its time on the axis, keeps the line as it was, and counts with the mean power of
    its window. A window that is open when the stream starts is dropped; one that is open at its end is not counted.

    Parameters
    ----------
    period_s : float
        Time between two samples.
    """

    def __init__(self, period_s: float) -> None:
        self.windows: list[Window] = []
        self.samples = 0
        self.lost = 0
        self._period_s = period_s
        self._line: bool | None = None
        self._whole = False
        self._sum_w = 0.0
        self._taken = 0
        self._missed = 0
        self._first_w = 0.0
        self._last_w = 0.0

    def feed(self, power_w: NDArray[np.floating], inside: NDArray[np.bool_]) -> None:
        """Take the next samples: power in watt, NaN where lost, and the window line, both of shape (samples,)."""
        if not len(power_w):
            return
        self.samples += len(power_w)
        if self._line is None:
            self._line = bool(inside[0])
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
        if bool(inside[0]) != self._line:
            edges = np.concatenate(([0], edges))
        start = 0
        for edge in edges.tolist():
            self._take(power_w[start:edge])
            self._turn()
            start = edge
        self._take(power_w[start:])

    def _take(self, power_w: NDArray[np.floating]) -> None:
        if not len(power_w):
            return
        total = float(power_w.sum(dtype=np.float64))
        lost = 0
        if total != total:
            arrived = power_w[~np.isnan(power_w)]
            lost = len(power_w) - len(arrived)
            total = float(arrived.sum(dtype=np.float64))
            power_w = arrived
        self.lost += lost
        if not (self._line and self._whole):
            return
        if len(power_w):
            if not self._taken:
                self._first_w = float(power_w[0])
            self._last_w = float(power_w[-1])
        self._sum_w += total
        self._taken += len(power_w)
        self._missed += lost

    def _turn(self) -> None:
        """The line changes: a window ends, or one begins."""
        if self._line and self._whole and self._taken:
            samples = self._taken + self._missed
            duration_s = samples * self._period_s
            self.windows.append(
                Window(
                    duration_s=duration_s,
                    energy_j=self._sum_w / self._taken * duration_s,
                    samples=samples,
                    lost=self._missed,
                    period_s=self._period_s,
                    edge_power_w=(self._first_w + self._last_w) / 2,
                )
            )
        self._line = not self._line
        self._whole = bool(self._line)
        self._sum_w, self._taken, self._missed = 0.0, 0, 0
