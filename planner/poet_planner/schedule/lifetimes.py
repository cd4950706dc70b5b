# SPDX-License-Identifier: Apache-2.0
"""How long values and workspaces are in RAM, and offsets for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Lifetime(Generic[Key]):
    """So many bytes from one moment to another, both included."""

    key: Key
    bytes: int
    start: int
    end: int


def first_fit(lifetimes: Iterable[Lifetime[Key]]) -> dict[Key, int]:
    """An offset for each lifetime: the largest first, at the lowest offset that is free from its start to its end."""
    ordered = sorted(lifetimes, key=lambda lifetime: (-lifetime.bytes, lifetime.start))
    # Start, end, offset and top of those placed, by their offsets.
    placed = np.zeros((4, len(ordered)), dtype=np.int64)
    offsets: dict[Key, int] = {}
    for count, lifetime in enumerate(ordered):
        start, end, below, above = placed[:, :count]
        clashing = np.nonzero((start <= lifetime.end) & (lifetime.start <= end))[0]
        free_from = np.maximum.accumulate(np.concatenate(([0], above[clashing])))
        fits = free_from[:-1] + lifetime.bytes <= below[clashing]
        offset = int(free_from[fits.argmax() if fits.any() else -1])
        offsets[lifetime.key] = offset
        at = np.searchsorted(below, offset)
        placed[:, at + 1 : count + 1] = placed[:, at:count]
        placed[:, at] = lifetime.start, lifetime.end, offset, offset + lifetime.bytes
    return offsets
