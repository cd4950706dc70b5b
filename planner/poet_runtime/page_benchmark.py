# SPDX-License-Identifier: Apache-2.0
"""Page transfers to and from the board's disk, made by the pager as in a step, and each waited for."""

from __future__ import annotations

import random
import time
from pathlib import Path

import torch
from torch import Tensor

from poet_runtime.pager import Pager

PLACES = 4
LEAST_PLACE_BYTES = 16 << 20


class PageBenchmark:
    """Transfers of a tensor between RAM and some places of a pager's file in a folder; close it at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pager: Pager | None = None
        self._place_bytes = 0
        self._data = torch.empty(0)

    @property
    def is_direct(self) -> bool:
        """Whether transfers pass by the kernel's cache."""
        return self._pager is None or not self._pager.note

    def prepare(self, size: int) -> None:
        """Make the file, and a page of a size in each of its places, before anything is timed."""
        pager = self._with_places_of(size)
        self._data = _random_bytes(size)
        for slot in range(PLACES):
            pager.page_out(slot, self._data)
        pager.drain()

    def run(self, direction: str, repeats: int, pattern: str = "sequential") -> list[int]:
        """Nanoseconds of each of so many transfers, ``in`` or ``out``, of the page that was prepared."""
        assert self._pager is not None
        shuffled = random.Random(0)
        times_ns = []
        try:
            for index in range(repeats):
                slot = shuffled.randrange(PLACES) if pattern == "scattered" else index % PLACES
                start_ns = time.perf_counter_ns()
                if direction == "in":
                    self._pager.page_in(slot)
                else:
                    self._pager.page_out(slot, self._data)
                self._pager.wait(slot)
                times_ns.append(time.perf_counter_ns() - start_ns)
        finally:
            self._pager.abandon()
        return times_ns

    def close(self) -> None:
        """End the file."""
        if self._pager is not None:
            self._pager.close()
            self._pager = None

    def _with_places_of(self, size: int) -> Pager:
        if self._pager is not None and size <= self._place_bytes:
            return self._pager
        self.close()
        self._place_bytes = max(LEAST_PLACE_BYTES, size)
        pager = Pager(self._folder)
        for place in range(PLACES):
            pager.slot(f"place {place}", self._place_bytes)
        pager.open()
        self._pager = pager
        return pager


def _random_bytes(size: int) -> Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))
