# SPDX-License-Identifier: Apache-2.0
"""Which samples a training step takes, and how they get to the board: a micro-batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.quantised import TYPES, Normalising

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_profiles.samples import Samples

    from ..card.sample_set import SampleSet
    from ..protocol.device import Device


@dataclass(frozen=True)
class Order:
    """The samples of each step: every one at most once in an epoch.

    What is left after the last whole batch of an epoch is left out, as by PyTorch's ``DataLoader(drop_last=True)``:
    a plan's batch has one size.

    Parameters
    ----------
    count, batch : int
        Samples in all, and in a step.
    seed : int or None
        Of the order, another one in each epoch; None: as they stand.
    parts : int
        Micro-batches of a step.
    """

    count: int
    batch: int
    seed: int | None
    parts: int = 1

    @property
    def steps_per_epoch(self) -> int:
        return self.count // self.batch

    @property
    def left_out(self) -> int:
        """Samples of each epoch that no step takes."""
        return self.count % self.batch

    def __call__(self, step: int, part: int = 0) -> NDArray[np.int64]:
        """Numbers of the samples of a step's part; steps are counted from the first one of the training."""
        epoch, place = divmod(step, self.steps_per_epoch)
        size = self.batch // self.parts
        first = place * self.batch + part * size
        return _permutation(self.count, self.seed, epoch)[first : first + size]


@lru_cache(maxsize=2)
def _permutation(count: int, seed: int | None, epoch: int) -> NDArray[np.int64]:
    """A function of seed and epoch alone, so that a run which was cut goes on with the same samples."""
    if seed is None:
        return np.arange(count, dtype=np.int64)
    return np.random.default_rng([seed, epoch]).permutation(count).astype(np.int64)


@dataclass(frozen=True)
class OverTheLine:
    """Sends the samples of each step, as small as they are kept.

    Parameters
    ----------
    samples : Samples
    order : Order
    normalising : Normalising or None
        Of samples that are kept as small integers.
    to_card : bool
        The plan has its batch there: the board writes what it is sent, and normalises nothing.
    """

    samples: Samples
    order: Order
    normalising: Normalising | None
    to_card: bool = False

    def __call__(self, device: Device, step: int, part: int = 0) -> None:
        self.put(device, self.order(step, part))

    def put(self, device: Device, numbers: NDArray[np.int64]) -> None:
        """Send samples, those of a batch."""
        for index, rows in self.samples.rows(numbers).items():
            if rows.dtype.name not in TYPES or self.normalising is None:
                device.put(index, rows.tobytes())
            elif device.hello.is_agent or self.to_card:
                device.put(index, self.normalising(rows).tobytes())
            else:
                _put_scaled(device, index, rows, self.normalising)


@dataclass(frozen=True)
class FromCard:
    """Names the samples of each step, which were sent to the card in the board before."""

    samples: SampleSet
    order: Order

    def __call__(self, device: Device, step: int, part: int = 0) -> None:
        self.put(device, self.order(step, part))

    def put(self, device: Device, numbers: NDArray[np.int64]) -> None:
        """Name samples, those of a batch."""
        self.samples.feed(device, numbers)


def _put_scaled(device: Device, index: int, rows: NDArray[Any], normalising: Normalising) -> None:
    """Send small integers, which the board normalises as they arrive: each channel's with its own pair."""
    channels = len(normalising.scales)
    number = {"uint8": "u8", "int8": "i8", "int16": "i16"}[rows.dtype.name]
    if channels == 1:
        device.put_scaled(index, rows.tobytes(), number, normalising.shifts[0], normalising.scales[0])
        return
    runs = rows.reshape(len(rows) * channels, -1)
    pairs = list(zip(normalising.shifts, normalising.scales, strict=True))
    for place, run in enumerate(runs):
        device.put_scaled(index, run.tobytes(), number, *pairs[place % channels], at=place * run.size)
