# SPDX-License-Identifier: Apache-2.0
"""How long values and workspaces are in RAM, and offsets for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Life(Generic[Key]):
    """So many bytes from one moment to another, both included."""

    key: Key
    bytes: int
    start: int
    end: int


def first_fit(lives: Iterable[Life[Key]]) -> dict[Key, int]:
    """An offset for each life: the largest first, at the lowest offset that is free from its start to its end."""
    offsets: dict[Key, int] = {}
    placed: list[Life[Key]] = []
    for life in sorted(lives, key=lambda life: (-life.bytes, life.start)):
        offset = 0
        clashing = (other for other in placed if other.start <= life.end and life.start <= other.end)
        for other in sorted(clashing, key=lambda other: offsets[other.key]):
            if offset + life.bytes <= offsets[other.key]:
                break
            offset = max(offset, offsets[other.key] + other.bytes)
        offsets[life.key] = offset
        placed.append(life)
    return offsets
