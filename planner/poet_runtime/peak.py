# SPDX-License-Identifier: Apache-2.0
"""What PyTorch allocates: read off its allocator's own record, kernels' scratch memory included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch.autograd.profiler import profile, record_function

ALLOCATION = "[memory]"
_MARK = "poet:mark"


@dataclass
class Peak:
    """The most bytes that were allocated at once beyond those at the start.

    Attributes
    ----------
    bytes : int
        Of all the time.
    before_marks : list of int
        By mark: since the mark before it.
    """

    bytes: int = 0
    before_marks: list[int] = field(default_factory=list)

    def mark(self) -> None:
        """Put a mark into the record."""
        with record_function(_MARK):
            pass


@contextmanager
def allocations() -> Iterator[Peak]:
    """Within, allocations are recorded; the peak is there afterwards. It is exact, and takes time."""
    # Read when the profiler first starts: it would announce itself on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    peak = Peak()
    with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
        yield peak
    held = most = 0
    for event in sorted(record.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == ALLOCATION:
            held += event.nbytes()
            most = max(most, held)
            peak.bytes = max(peak.bytes, held)
        elif event.name() == _MARK:
            peak.before_marks.append(most)
            most = held
