# SPDX-License-Identifier: Apache-2.0
"""What PyTorch allocates: read off its allocator's own record, kernels' scratch memory included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from torch.autograd.profiler import profile

ALLOCATION = "[memory]"


@dataclass
class Peak:
    """The most bytes that were allocated at once beyond those at the start."""

    bytes: int = 0


@contextmanager
def allocations() -> Iterator[Peak]:
    """Within, allocations are recorded; the peak is there afterwards. It is exact, and takes time."""
    # Read when the profiler first starts: it would announce itself on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    peak = Peak()
    with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
        yield peak
    events = record.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == ALLOCATION)
    peak.bytes = max(accumulate((change for _, change in changes), initial=0))
