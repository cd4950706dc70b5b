# SPDX-License-Identifier: Apache-2.0
"""The ejection search: offsets within a fixed capacity (docs/optimiser/placement.md).

It is the ejection pool of vehicle routing (Nagata and Bräysy 2009), on offsets. Some blocks are placed without overlap,
the others wait. A waiting block goes to the offset where the blocks in its way weigh least. Those are ejected and wait
in turn. A block that had to eject others gains weight, so that the search learns which blocks are hard to place.

Weights are integers: the sweep over the offsets adds and subtracts them, and the result must be exact.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from poet_planner.solve.instance import Flags, Ints
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, interruptible

Bits = npt.NDArray[np.uint64]

MEAN_WEIGHT = 1000  # of the blocks at first
HEAVIEST = 2**44  # weight above which all weights are scaled down
NOISE_PART = 8  # the weight in the way is overestimated by up to one such part of it, at random
SCALED_BITS = 12  # by which weights are shifted when they are scaled down


def eject(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    offsets: Ints,
    moves: int,
    growth: float,
    seed: int,
    budget: TimeBudget = UNLIMITED,
) -> bool:
    """Whether all blocks are placed within ``capacity`` after at most ``moves`` moves, before the budget expires.

    ``offsets`` receives their offsets; if not all are placed, the fullest placement, with -1 for unplaced blocks.

    Parameters
    ----------
    offsets : Ints
        Offsets without overlaps. The search starts from the blocks that lie within the capacity.
    growth : float
        Fraction of its weight that a block gains when it ejects others.
    """
    weight = np.sqrt(end - start) * size
    weight = 1 + (MEAN_WEIGHT * (weight / weight.mean())).astype(np.int64)
    random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
    work = partial(_eject, start, end, size, capacity, offsets, weight, moves, growth, random)
    return bool(interruptible(work, budget))


@allocating
def _eject(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    offsets: Ints,
    weight: Ints,
    moves: int,
    growth: float,
    random: Bits,
    stop: Flags,
) -> bool:
    count = size.size
    bottom = offsets.copy()
    top = bottom + size
    by_bottom = np.empty(count, dtype=np.int64)
    by_top = np.empty(count, dtype=np.int64)
    below = np.empty(count, dtype=np.int64)
    above = np.empty(count, dtype=np.int64)
    waiting = np.empty(count, dtype=np.int64)
    placed = 0
    waiting_count = 0
    for block in range(count):
        if top[block] <= capacity:
            insert(by_bottom, placed, block, bottom)
            insert(by_top, placed, block, top)
            placed += 1
        else:
            waiting[waiting_count] = block
            waiting_count += 1
    fewest = np.iinfo(np.int64).max
    for _ in range(moves):
        unplaced_bytes = 0
        for k in range(waiting_count):
            unplaced_bytes += size[waiting[k]]
        if unplaced_bytes < fewest:
            fewest = unplaced_bytes
            offsets[:] = bottom
            for k in range(waiting_count):
                offsets[waiting[k]] = -1
        if waiting_count == 0:
            return True
        if stop[0]:
            break
        pick = _draw(random, waiting_count)
        block = waiting[pick]
        waiting_count -= 1
        waiting[pick] = waiting[waiting_count]
        met = _alive_with(block, start, end, by_bottom, by_top, placed, below, above)
        bottom[block] = _lightest(block, size, capacity, bottom, top, below, above, met, weight, random)
        top[block] = bottom[block] + size[block]
        before = waiting_count
        for k in range(met):
            other = below[k]
            if bottom[other] < top[block] and top[other] > bottom[block]:
                _remove(by_bottom, placed, other)
                _remove(by_top, placed, other)
                placed -= 1
                waiting[waiting_count] = other
                waiting_count += 1
        insert(by_bottom, placed, block, bottom)
        insert(by_top, placed, block, top)
        placed += 1
        if waiting_count > before:
            weight[block] += 1 + np.int64(growth * weight[block])
            if weight[block] > HEAVIEST:
                for k in range(count):
                    weight[k] = 1 + (weight[k] >> SCALED_BITS)
    return False


@compiled
def _alive_with(
    block: int, start: Ints, end: Ints, by_bottom: Ints, by_top: Ints, placed: int, below: Ints, above: Ints
) -> int:
    """Find the placed blocks that live while ``block`` does; returns their number.

    ``below`` receives them by their bottoms, ``above`` by their tops.
    """
    first, last = start[block], end[block]
    met = 0
    upper = 0
    for k in range(placed):
        other = by_bottom[k]
        below[met] = other
        met += (start[other] < last) & (first < end[other])
        other = by_top[k]
        above[upper] = other
        upper += (start[other] < last) & (first < end[other])
    return met


@compiled
def _lightest(
    block: int,
    size: Ints,
    capacity: int,
    bottom: Ints,
    top: Ints,
    below: Ints,
    above: Ints,
    met: int,
    weight: Ints,
    random: Bits,
) -> int:
    """The offset at which the blocks in the way weigh least, up to some noise; drawn among equals.

    Without noise, two large blocks may eject each other forever, though moving a small one would make room for both.
    Only offset 0 and those at which the block touches another one are tried.
    """
    height = size[block]
    entered = 0
    gone = 0
    in_way = 0
    least = np.int64(np.iinfo(np.int64).max)
    equals = 0
    chosen = 0
    at = 0
    while at <= capacity - height:
        while entered < met and bottom[below[entered]] < at + height:
            in_way += weight[below[entered]]
            entered += 1
        while gone < met and top[above[gone]] <= at:
            in_way -= weight[above[gone]]
            gone += 1
        noisy = in_way + _draw(random, 1 + in_way // NOISE_PART)
        if noisy < least:
            least = noisy
            equals = 0
        if noisy == least:
            equals += 1
            if _draw(random, equals) == 0:
                chosen = at
        after = capacity
        if gone < met:
            after = top[above[gone]]
        if entered < met and bottom[below[entered]] - height > at:
            after = min(after, bottom[below[entered]] - height)
        at = after
    return chosen


@compiled
def insert(ordered: Ints, count: int, block: int, key: Ints) -> None:
    """Insert ``block`` into the first ``count`` blocks, which are sorted by ``key``."""
    at = count
    while at > 0 and key[ordered[at - 1]] > key[block]:
        ordered[at] = ordered[at - 1]
        at -= 1
    ordered[at] = block


@compiled
def _remove(ordered: Ints, count: int, block: int) -> None:
    """Remove ``block`` from the first ``count`` blocks."""
    at = 0
    while ordered[at] != block:
        at += 1
    for k in range(at, count - 1):
        ordered[k] = ordered[k + 1]


@compiled
def _draw(random: Bits, below: int) -> np.int64:
    """A whole number from 0 to ``below - 1`` (xorshift)."""
    bits = random[0]
    bits ^= bits << np.uint64(13)
    bits ^= bits >> np.uint64(7)
    bits ^= bits << np.uint64(17)
    random[0] = bits
    return np.int64(bits % np.uint64(below))
