# SPDX-License-Identifier: Apache-2.0
"""Gives a board what a head's step reads of its batch: features that it keeps, or makes of the samples first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError

from .micro_batches import total

if TYPE_CHECKING:
    from ..data.samples import Samples
    from ..plan_folder.extraction import Extraction
    from ..protocol.device import Device, StepReport

ASKED_TWICE = 16  # samples, to see whether they are the same in every epoch
Metered = Callable[[Callable[[], "StepReport"]], tuple["StepReport", float | None]]


@dataclass(frozen=True)
class Made:
    """What it took to make features: 0 where they were kept. ``energy_j`` is None where it is not known."""

    time_s: float = 0.0
    energy_j: float | None = 0.0


NOTHING_MADE = Made()


def give(
    device: Device,
    extraction: Extraction,
    numbers: Sequence[int] | None,
    put: Callable[[], None],
    metered: Metered,
) -> Made:
    """Have the features of a batch in their places.

    Parameters
    ----------
    numbers : sequence of int or None
        Under which the board keeps those of the batch's samples; None: it does not.
    put : callable
        Gives the board the samples.
    metered : callable
        Runs what it is given, and says what that drew.
    """
    if numbers is not None and device.kept(numbers):
        return NOTHING_MADE
    put()
    made = [
        metered(lambda first=first: device.extract(first, extraction.time_s))  # type: ignore[misc]
        for first in range(0, extraction.samples, extraction.at_once)
    ]
    if numbers is not None:
        device.keep(numbers)
    return Made(sum(report.work_s for report, _ in made), total([energy_j for _, energy_j in made]))


def refuse_changing(samples: Samples, source: str) -> None:
    """Refuse a data set of which a sample is another one when it is asked for again."""
    for number in np.unique(np.linspace(0, samples.count - 1, ASKED_TWICE).astype(np.int64)):
        first, again = (samples.rows(np.array([number])) for _ in range(2))
        if any(first[index].tobytes() != again[index].tobytes() for index in first):
            raise UserError(
                f"{source}: sample {number} is another one when it is asked for again (random augmentation?), so its "
                "features cannot be kept: give --features each-step"
            )
