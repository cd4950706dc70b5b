# SPDX-License-Identifier: Apache-2.0
"""What the nRF52840's flash may add to a count of cycles: an instruction cache that is assumed, not documented.

Its manual tells neither size nor penalty. A cache of 2 KB with two ways, lines of 16 bytes and 4.5 cycles for each miss
explains four of five published measurements (docs/emulation.md). Reads of data, which pass it by, are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.firmware.emulated_core import EmulatedCore

LINE_BYTES = 16
WAYS = 2
SETS = 2048 // LINE_BYTES // WAYS
CYCLES_A_MISS = 4.5


class InstructionCache:
    """Counts misses of a core, from the core's first call on."""

    def __init__(self) -> None:
        self.misses = 0
        self._sets: list[list[int]] = [[] for _ in range(SETS)]
        self._before = (0, 0)

    @property
    def cycles(self) -> float:
        """What they add."""
        return CYCLES_A_MISS * self.misses

    def fetch(self, address: int, size: int) -> None:
        """Take a block of instructions; one that has just been taken and fits one way is there."""
        if (address, size) == self._before and size <= LINE_BYTES * (SETS - 1):
            return
        self._before = (address, size)
        for line in range(address // LINE_BYTES, (address + size - 1) // LINE_BYTES + 1):
            ways = self._sets[line % SETS]
            if line in ways:
                ways.remove(line)
            else:
                self.misses += 1
                del ways[: len(ways) - WAYS + 1]
            ways.append(line)


@contextmanager
def cached(core: EmulatedCore) -> Iterator[InstructionCache]:
    """Count meanwhile; to be entered before the core is called for the first time."""
    cache = InstructionCache()
    with core.watched(cache.fetch):
        yield cache
