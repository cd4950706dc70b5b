# SPDX-License-Identifier: Apache-2.0
"""What PyTorch allocates: read off its allocator's own record, kernels' scratch memory included."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

from torch.autograd.profiler import profile

ALLOCATION = "[memory]"


@dataclass
class Peak:
    """What was allocated beyond that at the start.

    Attributes
    ----------
    bytes : int
        The most at once.
    held : list of (int, int)
        Behind each change: the time by ``time.perf_counter_ns``, and the bytes.
    """

    bytes: int = 0
    held: list[tuple[int, int]] = field(default_factory=list)


@contextmanager
def allocations() -> Iterator[Peak]:
    """Within, allocations are recorded; the peak is there afterwards. It is exact, and takes time."""
    # Read when the profiler first starts: it would announce itself on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    peak = Peak()
    ahead_ns = _unix_ahead_ns()
    with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
        yield peak
    events = record.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == ALLOCATION)
    sums = accumulate(change for _, change in changes)
    peak.held = [(when - ahead_ns, held) for (when, _), held in zip(changes, sums, strict=True)]
    peak.bytes = max((held for _, held in peak.held), default=0)


def _unix_ahead_ns() -> int:
    """What the record's clock shows beyond `time.perf_counter_ns`: of several readings that which took the least."""
    readings = [(time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()) for _ in range(9)]
    before, unix, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return unix - (before + after) // 2
