# SPDX-License-Identifier: Apache-2.0
"""Page transfers to and from the board's disk, one at a time as the pager makes them."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import torch
from poet_profiles.errors import UserError
from poet_profiles.protocol.status import Status

from poet_runtime.agent.server import RefusedError
from poet_runtime.direct_file import ALIGNMENT, DirectFile

LEAST_FILE_BYTES = 64 << 20
FILE_NAME = ".poet-agent-pages-{process}"


class PageBenchmark:
    """Transfers of a buffer between RAM and a nameless file in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME.format(process=os.getpid())
        self._file: DirectFile | None = None

    @property
    def is_direct(self) -> bool:
        """Whether transfers pass by the kernel's cache; True until one has shown otherwise."""
        return self._file is None or self._file.direct

    def prepare(self, size: int) -> None:
        """Make the file, with room for several pages of a size, before anything is timed."""
        wanted = max(LEAST_FILE_BYTES, 2 * size)
        if self._file is not None and self._file.size_bytes >= wanted:
            return
        self.close()
        try:
            self._file = DirectFile(self._path, wanted)
        except UserError as error:
            raise RefusedError(Status.E_ABSENT, str(error)) from None

    def run(self, direction: str, size: int, repeats: int, pattern: str) -> list[int]:
        """Nanoseconds of each of so many transfers."""
        assert self._file is not None
        data = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))
        step = -(-size // ALIGNMENT) * ALIGNMENT
        places = self._file.size_bytes // step
        shuffled = random.Random(0)
        move = self._file.read if direction == "in" else self._file.write
        times_ns = []
        for index in range(repeats):
            place = shuffled.randrange(places) if pattern == "scattered" else index % places
            start_ns = time.perf_counter_ns()
            try:
                move(place * step, data)
            except OSError as error:
                raise RefusedError(Status.E_IO, f"{self._path}: {error.strerror}") from None
            times_ns.append(time.perf_counter_ns() - start_ns)
        return times_ns

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
