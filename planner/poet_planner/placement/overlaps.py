# SPDX-License-Identifier: Apache-2.0
"""Whether offsets keep blocks apart: shares no code with what finds them."""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise


def fault(
    lower: Sequence[int], upper: Sequence[int], size: Sequence[int], offsets: Sequence[int], capacity: int
) -> str | None:
    """What is wrong with the offsets of blocks, in words; None: nothing.

    Two blocks that live at once may not share a byte, and none may lie below 0 or end above the capacity.
    """
    if not len(lower) == len(upper) == len(size) == len(offsets):
        return f"{len(offsets)} offsets for {len(size)} blocks"
    for block, offset in enumerate(offsets):
        if offset < 0 or offset + size[block] > capacity:
            return f"block {block} at {offset} does not lie within {capacity} bytes"
    # Ends come before beginnings of the same time: (time, begins, block).
    events = sorted([(at, False, k) for k, at in enumerate(upper)] + [(at, True, k) for k, at in enumerate(lower)])
    alive: list[tuple[int, int]] = []  # (offset, block), sorted; blocks without bytes are left out
    for _, begins, block in events:
        if size[block] == 0:
            continue
        here = (offsets[block], block)
        if not begins:
            del alive[bisect_left(alive, here)]
            continue
        at = bisect(alive, here)
        for below, above in pairwise([*alive[max(at - 1, 0) : at], here, *alive[at : at + 1]]):
            if below[0] + size[below[1]] > above[0]:
                return f"blocks {below[1]} and {above[1]} overlap"
        insort(alive, here)
    return None
