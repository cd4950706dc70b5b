# SPDX-License-Identifier: Apache-2.0
"""Gives a board what a head's step reads of its batch: features, which it makes and may keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.program.stopping import heed
from poet_profiles.protocol.status import Status

from ..protocol.device import SAMPLES_PER_LINE
from ..protocol.link import DeviceError
from .observed import Made, total

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_profiles.plan_folder.beside import Extraction
    from poet_profiles.samples import Samples

    from ..protocol.device import Device, StepReport

ASKED_TWICE = 16  # samples, to see whether they are the same in every epoch
Metered = Callable[[Callable[[], "StepReport"]], tuple["StepReport", float | None]]


Put = Callable[["Device", "NDArray[np.int64]"], None]


@dataclass(frozen=True)
class KeptSet:
    """Samples whose features a board keeps, from the number ``first`` on; ``put`` gives it a batch by their own."""

    count: int
    put: Put
    first: int = 0


@dataclass(frozen=True)
class KeptSamples:
    """What a board keeps features of.

    Attributes
    ----------
    of_step : callable
        Numbers of the samples of a step, by its own.
    sets : tuple of KeptSet
    """

    of_step: Callable[[int], NDArray[np.int64]]
    sets: tuple[KeptSet, ...]


def make(device: Device, extraction: Extraction, metered: Metered) -> Made:
    """Make the features of the batch that a board has been given.

    Parameters
    ----------
    metered : callable
        Runs what it is given, and says what that drew.
    """
    made = [
        metered(lambda first=first: device.extract(first, extraction.schedule.time_s))  # type: ignore[misc]
        for first in range(0, extraction.samples, extraction.at_once)
    ]
    return all_of([Made(report.work_s, energy_j) for report, energy_j in made])


def make_all(device: Device, extraction: Extraction, samples: KeptSamples, metered: Metered) -> Made:
    """Make and keep the features of all samples; the last batch of a set is filled up with its first ones.

    All at once, since a step that misses some would cost whole batches again: each epoch leaves others out.
    """
    made = []
    for one in samples.sets:
        for first in range(0, one.count, extraction.samples):
            heed()
            numbers = np.arange(first, first + extraction.samples) % one.count
            one.put(device, numbers)
            made.append(make(device, extraction, metered))
            made.append(_moved(device, device.keep, (one.first + numbers[: one.count - first]).tolist(), metered))
    return all_of(made)


def kept(device: Device, numbers: Sequence[int], metered: Metered) -> Made | None:
    """Make a batch of samples that a board has kept; None, and no batch, if one of them is not."""
    try:
        return _moved(device, device.kept, numbers, metered)
    except DeviceError as error:
        if error.number != Status.E_ABSENT:
            raise
        return None


def _moved(
    device: Device, move: Callable[[int, Sequence[int]], StepReport], numbers: Sequence[int], metered: Metered
) -> Made:
    """What it takes to move samples to where a board keeps them, or from there: nothing in its RAM."""
    made = []
    for place in range(0, len(numbers), SAMPLES_PER_LINE):
        part = numbers[place : place + SAMPLES_PER_LINE]
        if max(part) < device.hello.room:
            move(place, part)
            continue
        report, energy_j = metered(partial(move, place, part))
        made.append(Made(report.work_s, energy_j))
    return all_of(made)


def all_of(made: Sequence[Made]) -> Made:
    """What all of it took."""
    return Made(sum(one.time_s for one in made), total([one.energy_j for one in made]))


def refuse_changing(samples: Samples, source: str) -> None:
    """Refuse a data set of which a sample is another one when it is asked for again."""
    for number in np.unique(np.linspace(0, samples.count - 1, ASKED_TWICE).astype(np.int64)):
        first, again = (samples.rows(np.array([number])) for _ in range(2))
        if any(first[index].tobytes() != again[index].tobytes() for index in first):
            raise UserError(
                f"{source}: sample {number} is another one when it is asked for again (random augmentation?), so its "
                "features cannot be kept: give --features each-step"
            )
