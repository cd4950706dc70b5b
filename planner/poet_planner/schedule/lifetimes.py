# SPDX-License-Identifier: Apache-2.0
"""How long values and workspaces are in RAM, and offsets for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
    offsets: dict[Key, int] = {}
    placed: list[Lifetime[Key]] = []
    for lifetime in sorted(lifetimes, key=lambda lifetime: (-lifetime.bytes, lifetime.start)):
        offset = 0
        clashing = (other for other in placed if other.start <= lifetime.end and lifetime.start <= other.end)
        for other in sorted(clashing, key=lambda other: offsets[other.key]):
            if offset + lifetime.bytes <= offsets[other.key]:
                break
            offset = max(offset, offsets[other.key] + other.bytes)
        offsets[lifetime.key] = offset
        placed.append(lifetime)
    return offsets
