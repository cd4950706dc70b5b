# SPDX-License-Identifier: Apache-2.0
"""What a power meter would see: the supply current and the window line over emulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from poet_profiles.boards import Rails

from .clock import Clock


@dataclass(frozen=True)
class Trace:
    """A piecewise-constant current.

    Attributes
    ----------
    times_s : array (n + 1,)
        Where segments begin, and the end of the last.
    current_a : array (n,)
        Supply current in each segment.
    window : bool array (n,)
        Whether the board's marker line was high in it.
    """

    times_s: NDArray[np.float64]
    current_a: NDArray[np.float64]
    window: NDArray[np.bool_]


class _Track:
    """A value over time, as the changes it made. Changes may be entered ahead of time and replaced."""

    def __init__(self, value: float) -> None:
        self.changes: list[tuple[int, float]] = [(0, value)]

    def set(self, when: int, value: float) -> None:
        when = max(when, self.changes[0][0])
        while len(self.changes) > 1 and self.changes[-1][0] >= when:
            self.changes.pop()
        if self.changes[-1][1] != value:
            self.changes.append((when, value))

    def dip(self, spans: Iterable[tuple[int, int]], low: float, high: float) -> None:
        """The value is `low` from the begin of each span to its end, and `high` after it. Spans are in order."""
        changes = self.changes
        for begin, end in spans:
            last, value = changes[-1]
            if begin > last and value != low != high:  # as nearly always
                changes += ((begin, low), (end, high))
            else:
                self.set(begin, low)
                self.set(end, high)

    def drain(self, until: int) -> list[tuple[int, float]]:
        """Changes before `until`; what comes later stays, after the value that holds at `until`."""
        past = [change for change in self.changes if change[0] < until] or self.changes[:1]
        self.changes = [(until, past[-1][1])] + [change for change in self.changes if change[0] >= until]
        return past


class Power:
    """Adds up the rails of a board as the parts of the machine report their states.

    Attributes
    ----------
    take_sleeps : callable
        Begin and end of each sleep of the CPU since the last call, but for those that `cpu_sleeps` was called with.
    """

    def __init__(self, rails: Rails, clock: Clock) -> None:
        self.take_sleeps: Callable[[], list[tuple[int, int]]] = list
        self._rails = rails
        self._clock = clock
        self._begin = 0
        self._cpu_ratio = 1.0
        self._cpu = _Track(rails.cpu_active)
        self._storage = _Track(rails.storage_idle)
        self._window = _Track(0.0)

    def cpu_sleeps(self, begin: int, end: int) -> None:
        """The CPU sleeps between two times."""
        self._catch_up()
        self._sleep([(begin, end)])

    def _sleep(self, spans: Iterable[tuple[int, int]]) -> None:
        self._cpu.dip(spans, self._cpu_ratio * self._rails.cpu_idle, self._cpu_ratio * self._rails.cpu_active)

    def _catch_up(self) -> None:
        self._sleep(self.take_sleeps())

    def cpu_draws(self, ratio: float) -> None:
        """From now on the CPU draws so many times what the board file says."""
        self._catch_up()
        self._cpu_ratio = ratio
        self._cpu.set(self._clock.now, ratio * self._rails.cpu_active)

    def storage_reads(self, begin: int) -> None:
        """The card reads from `begin` on."""
        self._storage.set(begin, self._rails.storage_read)

    def storage_writes(self, begin: int) -> None:
        """The card writes from `begin` on."""
        self._storage.set(begin, self._rails.storage_write)

    def storage_idles(self, begin: int) -> None:
        """The card is idle from `begin` on."""
        self._storage.set(begin, self._rails.storage_idle)

    def storage_moves(self, begin: int, end: int, writes: bool) -> None:
        """Slow memory is read or written between two times."""
        self._storage.set(begin, self._rails.storage_write if writes else self._rails.storage_read)
        self._storage.set(end, self._rails.storage_idle)

    def window(self, inside: bool) -> None:
        """The marker line changes now."""
        self._window.set(self._clock.now, float(inside))

    def drain(self) -> Trace:
        """Everything since the last call."""
        self._catch_up()
        end = self._clock.now
        # Cycles below 2^53, years of them, are exact as floats.
        tracks = [np.array(track.drain(end), np.float64) for track in (self._cpu, self._storage, self._window)]
        starts = np.unique(np.maximum(np.concatenate([track[:, 0] for track in tracks]), self._begin))
        cpu, storage, window = (_sample(track, starts) for track in tracks)
        times = np.append(starts, max(end, starts[-1])) / self._clock.hz
        self._begin = end
        return Trace(times, cpu + storage, window > 0.5)


def _sample(changes: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of a track, given as rows of time and value, at some times."""
    place = np.searchsorted(changes[:, 0], at, side="right") - 1
    return np.asarray(changes[np.maximum(place, 0), 1])
