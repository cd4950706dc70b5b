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

import ctypes
from dataclasses import replace
from enum import IntEnum
from itertools import count

import numpy as np

from poet_planner.solve.engine import Function, Int, Ref, Struct, ints, struct
from poet_planner.solve.instance import Bits, Flags, Floats, Ints
from poet_planner.solve.statespace.bitset import words_of
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, in_steps

DECISIONS = 700  # of the first runs at least
DECISIONS_PER_BLOCK = 2  # the same: a run without any failure has about one for each block
ROUND = 64  # runs with as many decisions; then there are twice as many
DISTURBANCE = 0.2  # of an order from the second time on: standard deviation of the logarithm of what it goes by
SLIGHT_DISTURBANCE = 0.1  # the same of the order by failures, which changes of itself
REMEMBERED = 2**18  # failed states
CHANGES = 2**14  # room for so many at first
MOST_BYTES = 2**29  # of what grows with the blocks and with how deep the search goes; it gives up beyond
# A decision, and what each block adds: reference seconds.
DECISION_S = 5e-7
DECISION_S_PER_BLOCK = 1e-8

# What a run comes to; the last two: there was no room for a change, or for a decision.
FITS, FAILS, OPEN, CUT_OFF, FULL, DEEP = range(6)


class SearchVerdict(IntEnum):
    """What the search found out."""

    FITS = FITS
    FAILS = FAILS
    UNKNOWN = CUT_OFF


# Words of a `struct change` and of a `struct decision`, which C alone reads.
_CHANGE_WORDS, _DECISION_WORDS = 3, 8


@struct
class _CanonicalSearch(Struct):
    """One instance and the state of its search. Blocks are numbered by their first sections."""

    capacity: int
    # depth, changed: number of decisions and of changes; C counts them.
    depth: int
    changed: int
    full: bool  # whether there was no room for a decision or a change; C says so
    # first, last: (n,) the sections of block j are ``first[j]:last[j]``.
    first: Ints
    last: Ints
    size: Ints  # (n,) bytes
    twin: Ints  # (n,) the block before with the same sections and size, or -1; it lies lower
    mark: Ints  # (n,) random numbers for the keys of states
    starting: Ints  # (s + 1,) the blocks whose first section is s are ``starting[s]:starting[s + 1]``
    # alive_start, alive: the blocks alive in section s are ``alive[alive_start[s]:alive_start[s + 1]]``, in the order
    # in which they are tried.
    alive_start: Ints
    alive: Ints
    # floor, unplaced: (s,) bytes; the floor of a section without unplaced blocks is above the capacity.
    floor: Ints
    unplaced: Ints
    leaving: Ints  # (s,) number of unplaced blocks that are alive in this section and in the next
    weight: Floats  # (s,) how many failures the section explained
    least: Ints  # (n,) the highest floor in the sections of an unplaced block, bytes
    offset: Ints  # (n,) bytes, of placed blocks
    # placed, excluded: (n,).
    placed: Flags
    excluded: Flags
    covers: Ints  # (s + 1,) scratch
    changes: Ints  # (changes, 3) what is undone when the search returns
    decisions: Ints  # (depth, 8)
    conflicts: Bits  # (depth, words) sets of sections that explain the failures below each decision so far
    conflict: Bits  # (words,) the set of sections that explains the latest failure
    failed: Bits  # (remembered,) keys of states that failed


_canonical_fill = Function("canonical_fill", Ref, Ref, Ref)
_canonical_run = Function("canonical_run", Ref, Int, Ref, returns=ctypes.c_int)


def search(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    seed: int = 0,
    budget: TimeBudget = UNLIMITED,
    most_runs: int | None = None,
) -> tuple[SearchVerdict, Ints]:
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
    length = (end - start)[order]
    offsets = np.zeros_like(size)
    if 8 * int((last - first).sum() + 2 * len(size) * words_of(sections)) > MOST_BYTES:
        return SearchVerdict.UNKNOWN, offsets
    blocks = _search(first, last, size[order], capacity, sections)
    if (blocks.unplaced > capacity).any():
        return SearchVerdict.FAILS, offsets
    random = np.random.default_rng(seed)
    limit = max(DECISIONS, DECISIONS_PER_BLOCK * len(size))
    plain = (1.0 * length * blocks.size, length, blocks.size, last - first)
    decision_s = DECISION_S + DECISION_S_PER_BLOCK * len(size)
    for run in count():
        if run < len(plain):
            by = plain[run]
        elif run % 3:
            by = length * _mean_weight(blocks) * np.exp(SLIGHT_DISTURBANCE * random.standard_normal(len(size)))
        else:
            by = plain[run // 3 % len(plain)] * np.exp(DISTURBANCE * random.standard_normal(len(size)))
        _canonical_fill(blocks, ints(np.argsort(-by, kind="stable")), ints(np.empty_like(blocks.floor)))
        result = _run(blocks, limit, budget, decision_s)
        while result in (FULL, DEEP):
            blocks = _deeper(blocks) if result == DEEP else _roomier(blocks)
            if sum(each.nbytes for each in (blocks.alive, blocks.changes, blocks.conflicts)) > MOST_BYTES:
                return SearchVerdict.UNKNOWN, offsets
            result = _run(blocks, limit, budget, decision_s)
        if result != CUT_OFF or budget.expired or run + 1 == most_runs:
            offsets[order] = blocks.offset
            return SearchVerdict(result), offsets
        if run % ROUND == ROUND - 1:
            limit *= 2
    raise AssertionError


def _mean_weight(blocks: _CanonicalSearch) -> Floats:
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


def _search(first: Ints, last: Ints, size: Ints, capacity: int, sections: int) -> _CanonicalSearch:
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
    return _CanonicalSearch(
        capacity=capacity,
        depth=0,
        changed=0,
        full=False,
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
        changes=np.zeros((CHANGES, _CHANGE_WORDS), dtype=np.int64),
        decisions=np.zeros((2 * n + 16, _DECISION_WORDS), dtype=np.int64),
        conflicts=np.zeros((2 * n + 16, words), dtype=np.uint64),
        conflict=np.zeros(words, dtype=np.uint64),
        failed=np.zeros(REMEMBERED, dtype=np.uint64),
    )


def _roomier(blocks: _CanonicalSearch) -> _CanonicalSearch:
    """Twice as much room for changes."""
    return replace(blocks, changes=np.zeros((2 * len(blocks.changes), _CHANGE_WORDS), dtype=np.int64))


def _deeper(blocks: _CanonicalSearch) -> _CanonicalSearch:
    """Twice as much room for decisions."""
    return replace(
        blocks,
        decisions=np.zeros((2 * len(blocks.decisions), _DECISION_WORDS), dtype=np.int64),
        conflicts=np.zeros((2 * len(blocks.decisions), len(blocks.conflict)), dtype=np.uint64),
    )


def _run(blocks: _CanonicalSearch, limit: int, budget: TimeBudget, decision_s: float) -> int:
    """Search from the start, with at most ``limit`` decisions."""
    return in_steps(lambda tally: int(_canonical_run(blocks, limit, ints(tally))), budget, decision_s)
