# SPDX-License-Identifier: Apache-2.0
"""Windows cut out of a recording at given instants, for meters that do not sample the board's window line."""

from __future__ import annotations

import numpy as np

from .meter import MeterError, Window
from .recorded import Recording

FEWEST_SAMPLES = 10


def cut(recording: Recording, start_s: float, end_s: float, period_s: float, longest_gap: float) -> Window:
    """One window between two instants, its edges interpolated between samples.

    Parameters
    ----------
    period_s : float
        Time between two samples, nominally.
    longest_gap : float
        Two samples further apart than this many periods have lost what should stand between them.

    Raises
    ------
    MeterError
        If the recording does not cover the window, or holds fewer than ten samples of it.
    """
    times_s = recording.times_s
    if start_s < times_s[0] or end_s > times_s[-1]:
        raise MeterError(f"the recording does not cover the window ({times_s[0] - start_s:.3f} s early at its start)")
    first = max(int(np.searchsorted(times_s, start_s, side="right")) - 1, 0)
    last = min(int(np.searchsorted(times_s, end_s)), len(times_s) - 1)
    if last - first < FEWEST_SAMPLES:
        raise MeterError(
            f"only {last - first} samples in a window of {end_s - start_s:.4f} s; {FEWEST_SAMPLES} are needed"
        )
    gaps = np.diff(times_s[first : last + 1]) / period_s
    lost = int(np.round(gaps[gaps > longest_gap] - 1).sum())
    return Window(
        duration_s=end_s - start_s,
        energy_j=recording.energy_j(start_s, end_s),
        samples=last - first + lost,
        lost=lost,
    )
