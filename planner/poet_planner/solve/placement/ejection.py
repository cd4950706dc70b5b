# SPDX-License-Identifier: Apache-2.0
"""A placement within a fixed capacity by ejection search.

Some blocks lie, none upon another, and some wait. A waiting block goes where the blocks in its way weigh least, more or
less; those are ejected and wait in turn. A block that could not lie without ejecting grows heavier, so that the search
learns which blocks are hard to place (Nagata and Bräysy's ejection pool for vehicle routing, on offsets).

Weights are integers: the sweep adds and subtracts them, and what a heavy block leaves behind must be exact.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from poet_planner.solve.instance import Ints
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, interruptible

MEAN_WEIGHT = 1000
HEAVIEST = 2**44
# What is in the way is felt to weigh up to such a part more, at random.
FELT_MORE = 8
FORGOTTEN_BITS = 12


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
    """Whether every block came to lie within ``capacity`` in so many moves, and in time; ``offsets`` says where.

    If not, it says where most bytes lay, and -1 for the blocks that waited then.

    Parameters
    ----------
    offsets : Ints
        Offsets without overlaps; those within the capacity are where the search starts.
    growth : float
        By which share of itself a block that ejects grows heavier.
    """
    weight = np.sqrt(end - start) * size
    weight = 1 + (MEAN_WEIGHT * (weight / weight.mean())).astype(np.int64)
    random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
    work = partial(_eject, start, end, size, capacity, offsets, weight, moves, growth, random)
    return bool(interruptible(work, budget))


@allocating
def _eject(start, end, size, capacity, offsets, weight, moves, growth, random, stop):  # type: ignore[no-untyped-def]
    count = size.size
    bottom = offsets.copy()
    top = bottom + size
    by_bottom = np.empty(count, dtype=np.int64)
    by_top = np.empty(count, dtype=np.int64)
    below = np.empty(count, dtype=np.int64)
    above = np.empty(count, dtype=np.int64)
    waiting = np.empty(count, dtype=np.int64)
    lying = 0
    left = 0
    for block in range(count):
        if top[block] <= capacity:
            insert(by_bottom, lying, block, bottom)
            insert(by_top, lying, block, top)
            lying += 1
        else:
            waiting[left] = block
            left += 1
    fewest = np.iinfo(np.int64).max
    for _ in range(moves):
        without = 0
        for k in range(left):
            without += size[waiting[k]]
        if without < fewest:
            fewest = without
            offsets[:] = bottom
            for k in range(left):
                offsets[waiting[k]] = -1
        if left == 0:
            return True
        if stop[0]:
            break
        pick = _draw(random, left)
        block = waiting[pick]
        left -= 1
        waiting[pick] = waiting[left]
        met = _alive_with(block, start, end, by_bottom, by_top, lying, below, above)
        bottom[block] = _lightest(block, size, capacity, bottom, top, below, above, met, weight, random)
        top[block] = bottom[block] + size[block]
        before = left
        for k in range(met):
            other = below[k]
            if bottom[other] < top[block] and top[other] > bottom[block]:
                _remove(by_bottom, lying, other)
                _remove(by_top, lying, other)
                lying -= 1
                waiting[left] = other
                left += 1
        insert(by_bottom, lying, block, bottom)
        insert(by_top, lying, block, top)
        lying += 1
        if left > before:
            weight[block] += 1 + np.int64(growth * weight[block])
            if weight[block] > HEAVIEST:
                for k in range(count):
                    weight[k] = 1 + (weight[k] >> FORGOTTEN_BITS)
    return False


@compiled
def _alive_with(block, start, end, by_bottom, by_top, lying, below, above):  # type: ignore[no-untyped-def]
    """The lying blocks that live while ``block`` does: ``below`` by bottoms, ``above`` by tops; how many they are."""
    first, last = start[block], end[block]
    met = 0
    upper = 0
    for k in range(lying):
        other = by_bottom[k]
        below[met] = other
        met += (start[other] < last) & (first < end[other])
        other = by_top[k]
        above[upper] = other
        upper += (start[other] < last) & (first < end[other])
    return met


@compiled
def _lightest(block, size, capacity, bottom, top, below, above, met, weight, random):  # type: ignore[no-untyped-def]
    """The offset at which the blocks in the way weigh least, up to an eighth; drawn among equals.

    Else two large blocks may eject each other for ever where it takes a small one out of the way to let both lie.

    Only 0 and where the block touches another from above or from below need be tried. Hanging from the capacity is
    left out: what it leaves below is seldom a sum of sizes.
    """
    mine = size[block]
    entered = 0
    gone = 0
    in_way = 0
    least = np.iinfo(np.int64).max
    equals = 0
    chosen = 0
    at = 0
    while at <= capacity - mine:
        while entered < met and bottom[below[entered]] < at + mine:
            in_way += weight[below[entered]]
            entered += 1
        while gone < met and top[above[gone]] <= at:
            in_way -= weight[above[gone]]
            gone += 1
        felt = in_way + _draw(random, 1 + in_way // FELT_MORE)
        if felt < least:
            least = felt
            equals = 0
        if felt == least:
            equals += 1
            if _draw(random, equals) == 0:
                chosen = at
        after = capacity
        if gone < met:
            after = top[above[gone]]
        if entered < met and bottom[below[entered]] - mine > at:
            after = min(after, bottom[below[entered]] - mine)
        at = after
    return chosen


@compiled
def insert(ordered, count, block, key):  # type: ignore[no-untyped-def]
    at = count
    while at > 0 and key[ordered[at - 1]] > key[block]:
        ordered[at] = ordered[at - 1]
        at -= 1
    ordered[at] = block


@compiled
def _remove(ordered, count, block):  # type: ignore[no-untyped-def]
    at = 0
    while ordered[at] != block:
        at += 1
    for k in range(at, count - 1):
        ordered[k] = ordered[k + 1]


@compiled
def _draw(random, below):  # type: ignore[no-untyped-def]
    """A number from 0 to ``below``, itself excluded (xorshift)."""
    bits = random[0]
    bits ^= bits << np.uint64(13)
    bits ^= bits >> np.uint64(7)
    bits ^= bits << np.uint64(17)
    random[0] = bits
    return np.int64(bits % np.uint64(below))
