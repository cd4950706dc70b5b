# SPDX-License-Identifier: Apache-2.0
"""Aligning a recording with the host's clock: the delay at which a known pattern of windows stands out best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .recorded import Recording

EARLIEST_S, LATEST_S = -0.02, 0.1
LEAST_CONTRAST = 0.02
NEARLY = 0.99

Span = tuple[float, float]


@dataclass(frozen=True)
class Alignment:
    """How much later the recording shows a window than the host's clock says, and how well that is known."""

    delay_s: float
    residual_s: float


def align(recording: Recording, windows: Sequence[Span], step_s: float) -> Alignment | None:
    """Find the delay by which power inside the windows differs most from power between them.

    Parameters
    ----------
    windows : sequence of (start_s, end_s)
        Two or more windows with gaps between them in which the board does something else.
    step_s : float
        Resolution.

    Returns
    -------
    Alignment or None
        The residual is half the range of delays with nearly the same contrast. None if inside and outside differ by
        less than 2 %: there is nothing to align by.
    """
    gaps = [(before[1], after[0]) for before, after in pairwise(windows)]
    delays_s = np.arange(EARLIEST_S, LATEST_S, step_s)
    inside = np.array([_power_w(recording, windows, delay_s) for delay_s in delays_s])
    outside = np.array([_power_w(recording, gaps, delay_s) for delay_s in delays_s])
    contrast = np.abs(inside - outside)
    best = int(np.argmax(contrast))
    if contrast[best] < LEAST_CONTRAST * max(inside[best], outside[best]):
        return None
    nearly = delays_s[contrast >= NEARLY * contrast[best]]
    return Alignment(float((nearly[0] + nearly[-1]) / 2), float(max(nearly[-1] - nearly[0], step_s) / 2))


def _power_w(recording: Recording, spans: Sequence[Span], delay_s: float) -> float:
    """Mean power over all spans, moved by ``delay_s``."""
    energy_j = sum(recording.energy_j(start_s + delay_s, end_s + delay_s) for start_s, end_s in spans)
    return energy_j / sum(end_s - start_s for start_s, end_s in spans)
