# SPDX-License-Identifier: Apache-2.0
"""Recorded traces: energy between any two instants, and a meter that plays a recording back.

Between two samples the power is taken to run in a straight line, so the energy up to an instant is a parabola between
them and an edge may fall anywhere. A trace of energies (joule since the row before) is a straight line between its
rows instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_frame, refuse_missing

from .meter import Mark, Meter, MeterError, Window

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
# A step is judged by so many before it and after it. Where every other one is too long, the shorter ones are the pace.
PACE_STEPS, FEWEST_STEPS, PACE_QUANTILE = 50, 25, 0.45
LONG_STEP = 1.5
BLOCK_STEPS = 10_000
MOST_VOLTAGE_V = 1000.0


@dataclass(frozen=True)
class Recording:
    """A trace as cumulative energy.

    Parameters
    ----------
    times_s : array, shape (samples,)
        Strictly increasing.
    power_w : array, shape (samples,), or None
        Power at each sample; None for a trace of energies.
    total_j : array, shape (samples,)
        Energy from the first sample up to each.
    """

    times_s: Floats
    power_w: Floats | None
    total_j: Floats

    @classmethod
    def of_power(cls, times_s: Floats, power_w: Floats) -> Recording:
        """Recording of a sampled power."""
        steps_j = (power_w[1:] + power_w[:-1]) / 2 * np.diff(times_s)
        return cls(times_s, power_w, np.concatenate(([0.0], np.cumsum(steps_j))))

    def energy_j(self, start_s: float, end_s: float) -> float:
        """Energy between two instants within the trace."""
        return self._until(end_s) - self._until(start_s)

    @cached_property
    def missing(self) -> NDArray[np.int64]:
        """How many samples are missing between each sample and the next, by the pace of those around."""
        steps_s = np.diff(self.times_s)
        parts = []
        for start in range(0, len(steps_s), BLOCK_STEPS):  # most of a long trace is even, and looked at no closer
            first = max(0, start - PACE_STEPS)
            part = _missing(steps_s[first : start + BLOCK_STEPS + PACE_STEPS])
            parts.append(part[start - first :][:BLOCK_STEPS])
        return np.concatenate(parts)

    def lost(self, start_s: float, end_s: float) -> int:
        """How many samples are missing from a window; those of a gap at its edge count whole."""
        first, last = self._steps(start_s, end_s)
        return int(self.missing[first:last].sum())

    def gap_s(self, start_s: float, end_s: float) -> float:
        """For how long no sample shows what was drawn in a window."""
        first, last = self._steps(start_s, end_s)
        edges_s = np.clip(self.times_s[first : last + 1], start_s, end_s)
        return float(np.diff(edges_s)[self.missing[first:last] > 0].sum())

    def _steps(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The steps that a window lies in, the last one excluded."""
        first = max(int(np.searchsorted(self.times_s, start_s, side="right")) - 1, 0)
        return first, int(np.searchsorted(self.times_s, end_s))

    def _until(self, time_s: float) -> float:
        if self.power_w is None:
            return float(np.interp(time_s, self.times_s, self.total_j))
        last = len(self.times_s) - 2
        left = min(max(int(np.searchsorted(self.times_s, time_s, side="right")) - 1, 0), last)
        elapsed_s = time_s - self.times_s[left]
        share = elapsed_s / (self.times_s[left + 1] - self.times_s[left])
        power_w = self.power_w[left] + share / 2 * (self.power_w[left + 1] - self.power_w[left])
        return float(self.total_j[left] + elapsed_s * power_w)


def _missing(steps_s: Floats) -> NDArray[np.int64]:
    """Samples missing in each step.

    A step is as long as those around it, or so many times as long. Where the rate changes, those on one side count.
    A sample that came late makes one step longer and the next one shorter: with its neighbours, a step must be too long
    as well.
    """
    if steps_s.max() < LONG_STEP * steps_s.min():
        return np.zeros(len(steps_s), dtype=np.int64)
    import pandas as pd

    def pace(steps_s: Floats) -> Floats:
        steps = pd.Series(steps_s).rolling(PACE_STEPS, min_periods=min(FEWEST_STEPS, (len(steps_s) + 1) // 2))
        return np.asarray(steps.quantile(PACE_QUANTILE), dtype=np.float64)

    pace_s = np.fmax(pace(steps_s), pace(steps_s[::-1])[::-1])
    paces = steps_s / pace_s
    ends = np.concatenate(([1.0], paces, [1.0]))
    alone, among = np.rint(paces) - 1, np.rint(ends[:-2] + paces + ends[2:]) - 3
    missing: NDArray[np.int64] = np.maximum(0, np.minimum(alone, among)).astype(np.int64)
    return missing


def read_trace(path: Path, voltage_v: float | None) -> Recording:
    """Read a CSV with ``time_s`` and one of ``power_w``, ``current_a`` (needs ``voltage_v``) or ``energy_j``.

    Raises
    ------
    UserError
        With file, line and column, if the trace cannot be integrated; if the voltage is none.
    """
    if voltage_v is not None and not 0 < voltage_v <= MOST_VOLTAGE_V:
        raise UserError(f"--voltage: {voltage_v:g} is no supply voltage; give it in volt, above 0, such as 3.3")
    return _recording(path, read_frame(path), voltage_v)


def read_windows(path: Path, recording: Recording) -> list[tuple[float, float, str]]:
    """Read a CSV with ``start_s``, ``end_s`` and ``label``; every window must lie within the recording."""
    table = read_frame(path)
    refuse_missing(path, table, ("start_s", "end_s", "label"), "windows have these three")
    starts, ends = _column(path, table, "start_s"), _column(path, table, "end_s")
    first, last = recording.times_s[0], recording.times_s[-1]
    for row, (start_s, end_s) in enumerate(zip(starts, ends, strict=True)):
        if not start_s < end_s:
            raise UserError(f"{path}:{row + 2}: end_s: {end_s} is not after start_s {start_s}")
        if start_s < first or end_s > last:
            column = "start_s" if start_s < first else "end_s"
            raise UserError(f"{path}:{row + 2}: {column}: outside the trace, which runs from {first} s to {last} s")
    labels = ["" if value != value else str(value) for value in table["label"]]
    return list(zip(starts.tolist(), ends.tolist(), labels, strict=True))


class RecordedMeter(Meter):
    """Plays back a trace with a further column ``window`` (0 or 1): each measurement takes the next window.

    An edge stands halfway between the two samples where the column changes.
    """

    def __init__(self, path: Path, board: Board) -> None:
        table = read_frame(path)
        self._recording = _recording(path, table, board.voltage_v)
        window = _column(path, table, "window")
        if not np.isin(window, (0, 1)).all():
            row = int(np.argmin(np.isin(window, (0, 1))))
            raise UserError(f"{path}:{row + 2}: window: {window[row]:g} is neither 0 nor 1")
        line = window == 1
        middles_s = (self._recording.times_s[1:] + self._recording.times_s[:-1]) / 2
        rising, falling = middles_s[line[1:] & ~line[:-1]], middles_s[~line[1:] & line[:-1]]
        self._edges = list(
            zip(rising.tolist(), falling[falling > rising[0]].tolist() if len(rising) else [], strict=False)
        )
        self._period_s = float(np.median(np.diff(self._recording.times_s)))
        self._next = 0
        self.identity = f"recorded trace {path.name}"
        self.voltage_v = board.voltage_v

    def begin(self) -> None:
        pass

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        edges = self._edges[self._next : self._next + len(marks)]
        if len(edges) < len(marks):
            raise MeterError(f"the recording holds only {len(self._edges)} windows")
        self._next += len(marks)
        return [self._window(start_s, end_s) for start_s, end_s in edges]

    def _window(self, start_s: float, end_s: float) -> Window:
        recording, period_s = self._recording, self._period_s
        edges_j = recording.energy_j(start_s, start_s + period_s) + recording.energy_j(end_s - period_s, end_s)
        lost = recording.lost(start_s, end_s)
        return Window(
            duration_s=end_s - start_s,
            energy_j=recording.energy_j(start_s, end_s),
            samples=int(np.searchsorted(recording.times_s, end_s) - np.searchsorted(recording.times_s, start_s)) + lost,
            lost=lost,
            period_s=period_s,
            edge_power_w=edges_j / (2 * period_s),
        )


def find() -> list[str]:
    """Nothing to find."""
    return []


def open_recorded(address: str, board: Board) -> RecordedMeter:
    """Play back the trace in a file."""
    if not address:
        raise UserError("--meter recorded:FILE needs the trace's file name")
    return RecordedMeter(Path(address), board)


def _recording(path: Path, table: pd.DataFrame, voltage_v: float | None) -> Recording:
    power = next((name for name in ("power_w", "current_a", "energy_j") if name in table), "power_w")
    refuse_missing(path, table, ("time_s", power), "a trace has time_s and one of power_w, current_a, energy_j")
    times_s = _column(path, table, "time_s")
    if len(times_s) < 2:
        raise UserError(f"{path}: time_s: a trace needs two samples or more")
    steps_s = np.diff(times_s)
    if not (steps_s > 0).all():
        row = int(np.argmax(steps_s <= 0)) + 1
        raise UserError(f"{path}:{row + 2}: time_s: {times_s[row]} is not after {times_s[row - 1]} in the line before")
    if power == "energy_j":
        energies_j = _column(path, table, power)
        return Recording(times_s, None, np.concatenate(([0.0], np.cumsum(energies_j[1:]))))
    power_w = _column(path, table, power)
    if power == "current_a":
        if voltage_v is None:
            raise UserError(f"{path}:1: current_a: give the supply voltage with --voltage")
        power_w = power_w * voltage_v
    return Recording.of_power(times_s, power_w)


def _column(path: Path, table: pd.DataFrame, name: str) -> Floats:
    import pandas as pd

    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise UserError(f"{path}:{row + 2}: {name}: {table[name].iloc[row]!r} is not a finite number")
    return values
