# SPDX-License-Identifier: Apache-2.0
"""Profiling a board that runs the firmware: pages go through a buffer in its RAM, many in a window."""

from __future__ import annotations

from poet_profiles.boards import Board

from ..measuring.measure import Effort, Measurement, measure
from ..meters.meter import Activity, Meter
from ..protocol.device import Device, Timing
from .configurations import PAGE_OPS, Configuration
from .profiler import Profiler
from .slices import page_slice


class BoardProfiler(Profiler):
    """A profiler of a microcontroller, or of the firmware as a program; see :class:`Profiler`."""

    def __init__(self, device: Device, meter: Meter, board: Board, effort: Effort) -> None:
        super().__init__(device, meter, board, effort)
        self._pages: dict[tuple[str, int, str], Measurement] = {}

    def _page(self, item: Configuration) -> tuple[float, Measurement]:
        words = dict(pair.split("=") for pair in item.params.split())
        size, pattern = int(words["bytes"]), words["pattern"]
        buffer = page_slice(size, self._device.hello.ram_bytes)

        def call(repeats: int, expected_s: float) -> Timing:
            return self._device.page(PAGE_OPS[item.op], buffer, repeats, pattern, expected_s)

        # Pages larger than the RAM go through the same buffer, and differ only in how often: one measurement is enough.
        key = (item.op, buffer, pattern)
        if buffer == size or key not in self._pages:
            self._pages[key] = measure(call, Activity(item.op), self._meter, self._effort, self._idle_power_w)
        return buffer / size, self._pages[key]
