# SPDX-License-Identifier: Apache-2.0
"""A complete search for offsets: it places all blocks, or proves that they fit in no way (docs/optimiser/placement.md).

Any placement stays one if each block sinks until it lies on another or on the bottom. Such *canonical* placements are
built from below, along the skyline of what is placed (MiniMalloc, ASPLOS 2023, searches among them, too):

- A *section* is a largest set of blocks alive together. A block is alive in sections side by side, and two blocks meet
  if they share a section.
- The *floor* of a section: its unplaced blocks lie there or higher. What they take above it must fit the capacity.
- A *valley* is a run of sections at one floor that no unplaced block leaves without meeting a higher floor. For one of
  its sections the search tries each block that may lie there on the floor, and then that none does.
- Then these blocks are *excluded* until another block comes to lie below them. That one must reach into the room that
  the excluded block left; else that block could have sunk into it.

If a state fails, a set of sections explains why: every state that is equal there fails, too. The search returns to the
last decision that changed one of them (conflict-directed backjumping, Prosser 1993), and prefers sections that explain
many failures (dom/wdeg, Boussemart et al. 2004). States that failed are remembered. Restarts take other orders, two
of three by those failures.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints
from poet_planner.solve.jit import allocating, compiled, inlined
from poet_planner.solve.statespace.bitset import has, put, words_of
from poet_planner.solve.time_budget import UNLIMITED, Flags, TimeBudget, interruptible

DECISIONS = 700  # of the first runs at least
DECISIONS_PER_BLOCK = 2  # the same: a run without any failure has about one for each block
ROUND = 64  # runs with as many decisions; then there are twice as many
DISTURBANCE = 0.2  # of an order from the second time on: standard deviation of the logarithm of what it goes by
SLIGHT_DISTURBANCE = 0.1  # the same of the order by failures, which changes of itself
REMEMBERED = 2**18  # failed states

# What a run comes to.
FITS, FAILS, OPEN, CUT_OFF, FULL = range(5)


class Answer(IntEnum):
    """What the search found out."""

    FITS = FITS
    FAILS = FAILS
    UNKNOWN = CUT_OFF


# Kinds of changes on the trail: (kind, what, the number before).
_FLOOR, _LEAST, _PLACED, _EXCLUDED, _RAISED, _LEVEL, _CLOSED = range(7)
# Columns of a decision.
_SECTION, _LOW, _HIGH, _NEXT, _TRAIL, _PART_LOW, _PART_HIGH, _KEY = range(8)
# Counters.
_CHANGES, _DEPTH, _OVERFLOW, _DECISIONS = range(4)


class _Search(NamedTuple):
    """One instance and the state of its search. Blocks are numbered by their first sections.

    Attributes
    ----------
    capacity : bytes
    first, last : (n,) the sections of block j are ``first[j]:last[j]``
    size : (n,) bytes
    twin : (n,) the block before with the same sections and size, or -1; it lies lower
    mark : (n,) random numbers for the keys of states
    starting : (s + 1,) the blocks whose first section is s are ``starting[s]:starting[s + 1]``
    alive_start, alive : the blocks alive in section s are ``alive[alive_start[s]:alive_start[s + 1]]``, in the order in
        which they are tried
    floor, unplaced : (s,) bytes; the floor of a section without unplaced blocks is above the capacity
    leaving : (s,) number of unplaced blocks that are alive in this section and in the next
    weight : (s,) how many failures the section explained
    least : (n,) the highest floor in the sections of an unplaced block, bytes
    offset : (n,) bytes, of placed blocks
    placed, excluded : (n,)
    covers : (s + 1,) scratch
    trail : (changes, 3)
    decisions : (depth, 8)
    conflicts : (depth, words) sets of sections that explain the failures below each decision so far
    conflict : (words,) the set of sections that explains the latest failure
    failed : (remembered,) keys of states that failed
    counters : (4,)
    """

    capacity: int
    first: Ints
    last: Ints
    size: Ints
    twin: Ints
    mark: Ints
    starting: Ints
    alive_start: Ints
    alive: Ints
    floor: Ints
    unplaced: Ints
    leaving: Ints
    weight: Floats
    least: Ints
    offset: Ints
    placed: Flags
    excluded: Flags
    covers: Ints
    trail: Ints
    decisions: Ints
    conflicts: Ints
    conflict: Ints
    failed: Ints
    counters: Ints


def search(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    seed: int = 0,
    budget: TimeBudget = UNLIMITED,
    most_runs: int | None = None,
) -> tuple[Answer, Ints]:
    """Whether blocks fit a capacity, and their offsets if they do.

    Parameters
    ----------
    start, end : Ints
        Block j lives from ``start[j]`` until before ``end[j]``; no life is empty. (n,)
    size : Ints
        Bytes, positive; their sum is below 2^62. (n,)
    most_runs : int or None
        None: until the budget expires.
    """
    order = np.lexsort((end, start))
    first, last, sections = _sections(start[order], end[order])
    blocks = _search(first, last, size[order], capacity, sections)
    length = (end - start)[order]
    offsets = np.zeros_like(size)
    if (blocks.unplaced > capacity).any():
        return Answer.FAILS, offsets
    random = np.random.default_rng(seed)
    limit = max(DECISIONS, DECISIONS_PER_BLOCK * len(size))
    plain = (1.0 * length * blocks.size, length, blocks.size, last - first)
    for run in count():
        if run < len(plain):
            by = plain[run]
        elif run % 3:
            by = length * _mean_weight(blocks) * np.exp(SLIGHT_DISTURBANCE * random.standard_normal(len(size)))
        else:
            by = plain[run // 3 % len(plain)] * np.exp(DISTURBANCE * random.standard_normal(len(size)))
        _fill(blocks, np.argsort(-by, kind="stable"))
        result = interruptible(partial(_run, blocks, limit), budget)
        while result == FULL:
            blocks = _roomier(blocks)
            result = interruptible(partial(_run, blocks, limit), budget)
        if result != CUT_OFF or budget.expired or run + 1 == most_runs:
            offsets[order] = blocks.offset
            return Answer(result), offsets
        if run % ROUND == ROUND - 1:
            limit *= 2
    raise AssertionError


def _mean_weight(blocks: _Search) -> Floats:
    """How many failures the sections of each block explained, on average. (n,)"""
    until = np.concatenate(([0.0], blocks.weight.cumsum()))
    return (until[blocks.last] - until[blocks.first]) / (blocks.last - blocks.first)


def _sections(start: Ints, end: Ints) -> tuple[Ints, Ints, int]:
    """First section of each block, the one after its last, and the number of sections.

    A section closes at the first end after a start.
    """
    times = np.concatenate((start, end))
    is_end = np.repeat([False, True], len(start))
    order = np.lexsort((~is_end, times))  # at equal times ends come first
    ends = is_end[order]
    closing = times[order][1:][ends[1:] & ~ends[:-1]]
    return np.searchsorted(closing, start, "right"), np.searchsorted(closing, end, "right"), len(closing)


def _search(first: Ints, last: Ints, size: Ints, capacity: int, sections: int) -> _Search:
    n = len(size)
    span = last - first
    unplaced = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(unplaced, first, size)
    np.add.at(unplaced, last, -size)
    leaving = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(leaving, first, 1)
    np.add.at(leaving, last - 1, -1)
    alive = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(alive, first, 1)
    np.add.at(alive, last, -1)
    twin = np.full(n, -1, dtype=np.int64)
    latest: dict[tuple[int, int, int], int] = {}
    for block, same in enumerate(zip(first.tolist(), last.tolist(), size.tolist(), strict=True)):
        twin[block] = latest.get(same, -1)
        latest[same] = block
    words = words_of(sections)
    return _Search(
        capacity=capacity,
        first=first,
        last=last,
        size=size,
        twin=twin,
        mark=np.random.default_rng(0).integers(2**62, size=n),
        starting=np.searchsorted(first, np.arange(sections + 1)),
        alive_start=np.concatenate(([0], alive.cumsum()[:-1].cumsum())),
        alive=np.zeros(int(span.sum()), dtype=np.int64),
        floor=np.zeros(sections, dtype=np.int64),
        unplaced=unplaced.cumsum()[:-1],
        leaving=leaving.cumsum()[:-1],
        weight=np.ones(sections),
        least=np.zeros(n, dtype=np.int64),
        offset=np.zeros(n, dtype=np.int64),
        placed=np.zeros(n, dtype=np.bool_),
        excluded=np.zeros(n, dtype=np.bool_),
        covers=np.zeros(sections + 1, dtype=np.int64),
        trail=np.zeros((2**14, 3), dtype=np.int64),
        decisions=np.zeros((2 * n + 16, 8), dtype=np.int64),
        conflicts=np.zeros((2 * n + 16, words), dtype=np.int64),
        conflict=np.zeros(words, dtype=np.int64),
        failed=np.zeros(REMEMBERED, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
    )


def _roomier(blocks: _Search) -> _Search:
    """Twice as much room for the trail and for decisions."""
    return blocks._replace(
        trail=np.zeros((2 * len(blocks.trail), 3), dtype=np.int64),
        decisions=np.zeros((2 * len(blocks.decisions), 8), dtype=np.int64),
        conflicts=np.zeros((2 * len(blocks.decisions), len(blocks.conflict)), dtype=np.int64),
    )


@allocating
def _fill(blocks: _Search, order: Ints) -> None:
    """Let the blocks of each section be tried in ``order``."""
    filled = blocks.alive_start.copy()
    for block in order:
        for section in range(blocks.first[block], blocks.last[block]):
            blocks.alive[filled[section]] = block
            filled[section] += 1


@compiled
def _run(blocks: _Search, limit: int, stop: Flags) -> int:
    """Search from the start, with at most ``limit`` decisions."""
    for section in range(blocks.floor.size):
        blocks.floor[section] = 0
    for block in range(blocks.size.size):
        if blocks.placed[block]:
            _take(blocks, block, -1)
        blocks.placed[block] = blocks.excluded[block] = False
        blocks.least[block] = 0
    counters = blocks.counters
    counters[:] = 0
    result = _descend(blocks)
    while result != FITS:
        if counters[_OVERFLOW] > 0:
            return FULL
        if result == FAILS and not _jump_back(blocks):
            return FAILS
        if counters[_DECISIONS] >= limit or stop[0]:
            return CUT_OFF
        counters[_DECISIONS] += 1
        result = _try_next(blocks)
        if result == OPEN:
            result = _descend(blocks)
    return FITS


@compiled
def _descend(blocks: _Search) -> int:
    """Raise floors as far as they must be, then add the next decision.

    FITS: nothing is unplaced. FAILS: the conflict says why.
    """
    capacity, floor = blocks.capacity, blocks.floor
    while blocks.counters[_OVERFLOW] == 0:
        low, high = _valley(blocks)
        if low < 0:
            return FITS
        level = floor[low]
        candidates, inside, lowest_top = _cover(blocks, low, high)
        if candidates == 0:
            if not _close(blocks, low, high, inside, lowest_top):
                return FAILS
            continue
        raised = False
        for section in range(low, high):
            if blocks.covers[section] == 0:
                least = capacity + 1
                for k in range(blocks.alive_start[section], blocks.alive_start[section + 1]):
                    block = blocks.alive[k]
                    if not blocks.placed[block]:
                        least = min(least, blocks.least[block])
                # Else an excluded block waits there for what comes to lie below it.
                if least > level:
                    raised = True
                    _note(blocks, _RAISED, section, level)
                    floor[section] = least
                    if least + blocks.unplaced[section] > capacity:
                        _blame(blocks, section)
                        return FAILS
        if not raised:
            return _decide(blocks, low, high)
    return OPEN


@compiled
def _valley(blocks: _Search) -> tuple[int, int]:
    """The valley with the section that has the fewest bytes to spare; (-1, -1): nothing is unplaced."""
    capacity, floor, leaving = blocks.capacity, blocks.floor, blocks.leaving
    sections = floor.size
    low, high, fewest = -1, -1, capacity + 1
    first = 0
    while first < sections:
        level = floor[first]
        last = first + 1
        if level > capacity:
            first = last
            continue
        spare = capacity - level - blocks.unplaced[first]
        while last < sections and floor[last] == level and leaving[last - 1] > 0:
            spare = min(spare, capacity - level - blocks.unplaced[last])
            last += 1
        walled = first == 0 or leaving[first - 1] == 0 or floor[first - 1] > level
        walled = walled and (last == sections or leaving[last - 1] == 0 or floor[last] > level)
        if walled and spare < fewest:
            low, high, fewest = first, last, spare
        first = last
    return low, high


@compiled
def _cover(blocks: _Search, low: int, high: int) -> tuple[int, int, np.int64]:
    """Count by how many blocks each section of a valley could be covered on its floor.

    Returns
    -------
    candidates, inside : number of blocks that could lie on the floor, and of all unplaced blocks inside the valley
    lowest_top : the lowest top that an excluded block would have where it was excluded
    """
    covers = blocks.covers
    for section in range(low, high + 1):
        covers[section] = 0
    candidates, inside, lowest_top = 0, 0, np.int64(np.iinfo(np.int64).max)
    for block in range(blocks.starting[low], blocks.starting[high]):
        if blocks.placed[block] or blocks.last[block] > high:
            continue
        inside += 1
        if blocks.excluded[block]:
            lowest_top = min(lowest_top, blocks.least[block] + blocks.size[block])
        elif _is_next_twin(blocks, block):
            candidates += 1
            covers[blocks.first[block]] += 1
            covers[blocks.last[block]] -= 1
    for section in range(low + 1, high):
        covers[section] += covers[section - 1]
    return candidates, inside, lowest_top


@compiled
def _close(blocks: _Search, low: int, high: int, inside: int, lowest_top: np.int64) -> bool:
    """Raise a valley without candidates to the least offset of a block that leaves it.

    The lowest of the blocks inside must lie on such a block. False: it cannot.
    """
    capacity = blocks.capacity
    least = capacity + 1
    for section in (low, high - 1):
        for k in range(blocks.alive_start[section], blocks.alive_start[section + 1]):
            block = blocks.alive[k]
            if not blocks.placed[block] and (blocks.first[block] < low or blocks.last[block] > high):
                least = min(least, blocks.least[block])
    _note(blocks, _LEVEL, 0, least)
    _note(blocks, _CLOSED, low, high)
    if least > capacity or (inside > 0 and lowest_top <= least):
        blocks.conflict[:] = 0
        put(blocks.conflict, low, True)
        return False
    for section in range(low, high):
        _note(blocks, _FLOOR, section, blocks.floor[section])
        blocks.floor[section] = least
        if least + blocks.unplaced[section] > capacity:
            _blame(blocks, section)
            return False
    for block in range(blocks.starting[low], blocks.starting[high]):
        if not blocks.placed[block] and blocks.last[block] <= high and blocks.least[block] < least:
            _note(blocks, _LEAST, block, blocks.least[block])
            blocks.least[block] = least
    return True


@compiled
def _decide(blocks: _Search, low: int, high: int) -> int:
    """Add a decision on what lies on the floor of the section with the fewest choices for its weight.

    FAILS: the state has failed before.
    """
    capacity, level = blocks.capacity, blocks.floor[low]
    smallest = capacity + 1
    for block in range(blocks.starting[low], blocks.starting[high]):
        if not blocks.placed[block] and not blocks.excluded[block] and blocks.last[block] <= high:
            smallest = min(smallest, blocks.size[block])
    best, fewest = -1, 0.0
    for section in range(low, high):
        if blocks.covers[section] > 0:
            spare = capacity - level - blocks.unplaced[section]
            choices = (blocks.covers[section] + (spare >= smallest)) / blocks.weight[section]
            if best < 0 or choices < fewest:
                best, fewest = section, choices
    part_low, part_high = low, high
    while part_low > 0 and blocks.leaving[part_low - 1] > 0:
        part_low -= 1
    while part_high < blocks.floor.size and blocks.leaving[part_high - 1] > 0:
        part_high += 1
    key = _key(blocks, part_low, part_high)
    if blocks.failed[key & (blocks.failed.size - 1)] == key:
        blocks.conflict[:] = 0
        _put_all(blocks.conflict, part_low, part_high)
        return FAILS
    depth = blocks.counters[_DEPTH]
    if depth == blocks.decisions.shape[0]:
        blocks.counters[_OVERFLOW] = 1
        return OPEN
    decision = blocks.decisions[depth]
    decision[_SECTION] = best
    decision[_LOW] = low
    decision[_HIGH] = high
    decision[_NEXT] = blocks.alive_start[best]
    decision[_TRAIL] = blocks.counters[_CHANGES]
    decision[_PART_LOW] = part_low
    decision[_PART_HIGH] = part_high
    decision[_KEY] = key
    for word in range(blocks.conflict.size):
        blocks.conflicts[depth, word] = 0
    blocks.counters[_DEPTH] = depth + 1
    return OPEN


@compiled
def _try_next(blocks: _Search) -> int:
    """Try what the latest decision has left: a block, then that none lies there.

    FAILS: that fails, or nothing was left, and the decision is gone.
    """
    depth = blocks.counters[_DEPTH]
    decision = blocks.decisions[depth - 1]
    section = decision[_SECTION]
    begin, stop = blocks.alive_start[section], blocks.alive_start[section + 1]
    while decision[_NEXT] < stop:
        block = blocks.alive[decision[_NEXT]]
        decision[_NEXT] += 1
        if _is_candidate(blocks, block, decision[_LOW], decision[_HIGH]):
            return OPEN if _place(blocks, block, blocks.floor[section]) else FAILS
    if decision[_NEXT] == stop:
        decision[_NEXT] += 1
        if _may_stay_free(blocks, section, decision[_LOW], decision[_HIGH]):
            for k in range(begin, stop):
                block = blocks.alive[k]
                if _is_candidate(blocks, block, decision[_LOW], decision[_HIGH]):
                    _note(blocks, _EXCLUDED, block, 0)
                    blocks.excluded[block] = True
            return OPEN
        _merge(blocks.conflict, blocks.conflicts[depth - 1])
    for word in range(blocks.conflict.size):
        blocks.conflict[word] = blocks.conflicts[depth - 1, word]
    put(blocks.conflict, section, True)
    _explain(blocks, section, section + 1, blocks.floor[section] + 1)
    part_low, part_high = decision[_PART_LOW], decision[_PART_HIGH]
    if not _has_any(blocks.conflict, 0, part_low) and not _has_any(blocks.conflict, part_high, blocks.floor.size):
        blocks.failed[decision[_KEY] & (blocks.failed.size - 1)] = decision[_KEY]
    blocks.counters[_DEPTH] = depth - 1
    return FAILS


@compiled
def _may_stay_free(blocks: _Search, section: int, low: int, high: int) -> bool:
    """Whether the section has room for what else could come to lie under its blocks; if not, the conflict says why."""
    capacity, floor, unplaced = blocks.capacity, blocks.floor, blocks.unplaced[section]
    level = floor[section]
    least = capacity + 1
    for block in range(blocks.starting[low], blocks.starting[high]):
        elsewhere = section < blocks.first[block] or section >= blocks.last[block]
        if not blocks.placed[block] and blocks.last[block] <= high and elsewhere:
            least = min(least, level + blocks.size[block])
    if low > 0 and blocks.leaving[low - 1] > 0:
        least = min(least, floor[low - 1])
    if high < floor.size and blocks.leaving[high - 1] > 0:
        least = min(least, floor[high])
    if least + unplaced <= capacity:
        return True
    _blame(blocks, section)
    if level + 1 + unplaced <= capacity:
        _put_all(blocks.conflict, max(low - 1, 0), min(high + 1, floor.size))
    return False


@compiled
def _place(blocks: _Search, block: int, offset: int) -> bool:
    """Place a block; False: a section then lacks room."""
    capacity, size, floor = blocks.capacity, blocks.size[block], blocks.floor
    first, last, top = blocks.first[block], blocks.last[block], offset + size
    _note(blocks, _PLACED, block, 0)
    blocks.placed[block] = True
    blocks.offset[block] = offset
    _take(blocks, block, 1)
    lacking = -1
    for section in range(first, last):
        _note(blocks, _FLOOR, section, floor[section])
        unplaced = blocks.unplaced[section]
        floor[section] = top if unplaced > 0 else capacity + 1
        lacks = unplaced > 0 and top + unplaced > capacity
        if lacks and (lacking < 0 or blocks.weight[section] > blocks.weight[lacking]):
            lacking = section
    if lacking >= 0:
        _blame(blocks, lacking)
        return False
    for other in range(blocks.starting[last]):
        if blocks.last[other] > first and blocks.least[other] < top and not blocks.placed[other]:
            _note(blocks, _LEAST, other, blocks.least[other])
            blocks.least[other] = top
            if blocks.excluded[other]:
                _note(blocks, _EXCLUDED, other, 1)
                blocks.excluded[other] = False
    return True


@compiled
def _jump_back(blocks: _Search) -> bool:
    """Undo decisions down to the latest one that the conflict depends on; False: there is none."""
    counters = blocks.counters
    while counters[_DEPTH] > 0:
        depth = counters[_DEPTH] - 1
        if _undo(blocks, blocks.decisions[depth, _TRAIL]):
            _merge(blocks.conflict, blocks.conflicts[depth])
            return True
        counters[_DEPTH] = depth
    return False


@compiled
def _undo(blocks: _Search, changes: int) -> bool:
    """Undo all but so many changes; whether the conflict depends on one of them.

    Raised floors follow from others, which take their places in the conflict.
    """
    conflict, trail = blocks.conflict, blocks.trail
    depends = False
    for k in range(blocks.counters[_CHANGES] - 1, changes - 1, -1):
        kind, what, before = trail[k, 0], trail[k, 1], trail[k, 2]
        if kind == _FLOOR:
            blocks.floor[what] = before
        elif kind == _LEAST:
            blocks.least[what] = before
        elif kind == _PLACED:
            blocks.placed[what] = False
            _take(blocks, what, -1)
            depends = depends or _has_any(conflict, blocks.first[what], blocks.last[what])
        elif kind == _EXCLUDED:
            blocks.excluded[what] = before != 0
            depends = depends or _has_any(conflict, blocks.first[what], blocks.last[what])
        elif kind == _RAISED:
            level = blocks.floor[what]
            blocks.floor[what] = before
            if has(conflict, what):
                _explain(blocks, what, what + 1, level)
        elif kind == _CLOSED and _has_any(conflict, what, before):
            _put_all(conflict, what, before)
            _explain(blocks, what, before, min(trail[k - 1, 2], blocks.capacity + 1))
    blocks.counters[_CHANGES] = changes
    return depends


@compiled
def _explain(blocks: _Search, low: int, high: int, level: int) -> None:
    """Add to the conflict why the blocks that leave these sections, all below ``level``, cannot lie below it."""
    conflict, floor = blocks.conflict, blocks.floor
    left, right = low - 1, high
    while left >= 0 and floor[left] < level:
        left -= 1
    while right < floor.size and floor[right] < level:
        right += 1
    by_left = by_right = by_either = False
    for section in (low, high - 1):
        for k in range(blocks.alive_start[section], blocks.alive_start[section + 1]):
            block = blocks.alive[k]
            if not blocks.placed[block]:
                meets_left, meets_right = blocks.first[block] <= left, blocks.last[block] > right
                by_left = by_left or (meets_left and not meets_right)
                by_right = by_right or (meets_right and not meets_left)
                by_either = by_either or (meets_left and meets_right)
    if by_either and not by_left and not by_right:
        by_right = right < floor.size and has(conflict, right)
        by_left = not by_right
    if by_left:
        put(conflict, left, True)
    if by_right:
        put(conflict, right, True)


@compiled
def _key(blocks: _Search, low: int, high: int) -> np.int64:
    """A hash of the state of sections that no unplaced block leaves."""
    key = np.int64(low + 1)
    for section in range(low, high):
        if blocks.floor[section] <= blocks.capacity:
            key += _mixed(blocks.floor[section] * blocks.floor.size + section)
    for block in range(blocks.starting[low], blocks.starting[high]):
        if not blocks.placed[block]:
            key += blocks.mark[block] * (3 if blocks.excluded[block] else 1)
    return _mixed(key)


@inlined
def _mixed(bits: np.int64) -> np.int64:
    bits = (bits ^ (bits >> 31)) * 0x7FB5D329728EA185
    bits = (bits ^ (bits >> 27)) * 0x1B03738712FAD5C9
    return bits ^ (bits >> 33)


@inlined
def _is_next_twin(blocks: _Search, block: int) -> bool:
    """Whether all blocks equal to an unplaced one that come before it are placed."""
    return bool(blocks.twin[block] < 0 or blocks.placed[blocks.twin[block]])


@inlined
def _is_candidate(blocks: _Search, block: int, low: int, high: int) -> bool:
    """Whether a block could lie on the floor of this valley."""
    inside = blocks.first[block] >= low and blocks.last[block] <= high
    return inside and not blocks.placed[block] and not blocks.excluded[block] and _is_next_twin(blocks, block)


@inlined
def _take(blocks: _Search, block: int, times: int) -> None:
    """Count a block as no longer unplaced; ``times`` -1: as unplaced again."""
    for section in range(blocks.first[block], blocks.last[block]):
        blocks.unplaced[section] -= times * blocks.size[block]
    for section in range(blocks.first[block], blocks.last[block] - 1):
        blocks.leaving[section] -= times


@inlined
def _note(blocks: _Search, kind: int, what: int, before: int) -> None:
    """Put a change on the trail."""
    change = blocks.counters[_CHANGES]
    if change == blocks.trail.shape[0]:
        blocks.counters[_OVERFLOW] = 1
    else:
        blocks.trail[change, 0] = kind
        blocks.trail[change, 1] = what
        blocks.trail[change, 2] = before
        blocks.counters[_CHANGES] = change + 1


@inlined
def _blame(blocks: _Search, section: int) -> None:
    """One section explains the failure: it lacks room."""
    blocks.conflict[:] = 0
    put(blocks.conflict, section, True)
    blocks.weight[section] += 1.0


@compiled
def _merge(some: Ints, into: Ints) -> None:
    """Add the bits of one row to another."""
    for word in range(some.size):
        into[word] |= some[word]


@compiled
def _put_all(row: Ints, low: int, high: int) -> None:
    """Add the bits from ``low`` until before ``high``."""
    for bit in range(low, high):
        put(row, bit, True)


@compiled
def _has_any(row: Ints, low: int, high: int) -> bool:
    """Whether the row has a bit from ``low`` until before ``high``."""
    if low >= high:
        return False
    first, last = low >> 6, (high - 1) >> 6
    from_low, to_high = np.int64(-1) << (low & 63), ~(np.int64(-2) << ((high - 1) & 63))
    if first == last:
        return bool(row[first] & from_low & to_high != 0)
    met = row[first] & from_low | row[last] & to_high
    for word in range(first + 1, last):
        met |= row[word]
    return bool(met != 0)
