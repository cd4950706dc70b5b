# SPDX-License-Identifier: Apache-2.0
"""`place`: against exhaustive search, on full rectangles, and what it refuses."""

from __future__ import annotations

import random

import numpy as np
import poet_planner
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.placement import Verdict, place
from poet_planner.placement.overlaps import fault
from poet_planner.solve.placement import canonical
from poet_planner.solve.placement.first_fit import best_first_fit
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.errors import UserError

from benchmarks.planner.placement import cut_rectangle
from tests.support.graphs.blocks import Block, fits, full
from tests.support.levels import examples

# Lower, upper and size of blocks in hexadecimal. Their loads never exceed the capacity, yet they fit in no way.
IMPOSSIBLE = [("032 253 252 234 141 01a 129 346 457", 12), ("032 143 131 022 364 251 014 231 453 564", 8)]


def overlap(blocks: list[Block], offsets: tuple[int, ...]) -> bool:
    """Whether two blocks share a byte at a time, by comparing each with each."""
    return any(
        a[2] and b[2] and a[0] < b[1] and b[0] < a[1] and at < bt + b[2] and bt < at + a[2]
        for k, (a, at) in enumerate(zip(blocks, offsets, strict=True))
        for b, bt in list(zip(blocks, offsets, strict=True))[:k]
    )


def search(blocks: list[Block], capacity: int, seed: int = 0) -> tuple[canonical.SearchVerdict, tuple[int, ...]]:
    """The complete search alone."""
    start, end, size = np.array(blocks, dtype=np.int64).T.copy()
    answer, offsets = canonical.search(start, end, size, capacity, seed, TimeBudget(60.0))
    return answer, tuple(offsets.tolist())


def cut(rng: random.Random, steps: int, capacity: int, pieces: int) -> list[Block]:
    """It fits, and nothing may be wasted."""
    uncut = cut_rectangle(rng, steps, capacity, pieces)
    rng.shuffle(uncut)
    return [(lower, upper, top - bottom) for lower, upper, bottom, top in uncut]


a_block = st.tuples(st.integers(-3, 6), st.integers(1, 5), st.integers(0, 5)).map(lambda b: (b[0], b[0] + b[1], b[2]))


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.lists(a_block, max_size=7), st.integers(0, 14))
def test_exhaustive_search_agrees(blocks: list[Block], capacity: int) -> None:
    places = place([b[0] for b in blocks], [b[1] for b in blocks], [b[2] for b in blocks], capacity, 60.0)
    assert (places.verdict is Verdict.PLACED) == fits([b for b in blocks if b[2]], capacity)
    if places.verdict is Verdict.PLACED:
        assert all(0 <= at <= capacity - b[2] for b, at in zip(blocks, places.offsets, strict=True))
        assert not overlap(blocks, places.offsets)
    else:
        assert places == poet_planner.Places(Verdict.IMPOSSIBLE)


def test_the_complete_search_agrees_where_nothing_may_be_wasted() -> None:
    impossible_ones = 0
    for seed in range(200):
        blocks, capacity = full(random.Random(seed))
        answer, offsets = search(blocks, capacity, seed)
        if answer is canonical.SearchVerdict.FITS:
            assert max(at + b[2] for b, at in zip(blocks, offsets, strict=True)) <= capacity
            assert not overlap(blocks, offsets)
        else:
            assert answer is canonical.SearchVerdict.FAILS
            assert not fits(blocks, capacity)
            impossible_ones += 1
    assert impossible_ones > 3


def impossible(digits: str) -> list[Block]:
    return [(int(a, 16), int(b, 16), int(c, 16)) for a, b, c in digits.split()]


@pytest.mark.parametrize(("digits", "capacity"), IMPOSSIBLE)
def test_blocks_that_fit_by_their_load_alone_are_proven_impossible(digits: str, capacity: int) -> None:
    blocks = impossible(digits)
    load = [sum(size for lower, upper, size in blocks if lower <= step < upper) for step in range(7)]
    assert max(load) <= capacity
    assert not fits(blocks, capacity)
    assert search(blocks, capacity)[0] is canonical.SearchVerdict.FAILS
    assert place(*zip(*blocks, strict=True), capacity).verdict == "impossible"


def test_a_part_that_fits_in_no_way_is_found_among_many_that_do() -> None:
    """Decisions on other parts need not be undone for it."""
    blocks = [(lower, upper, 20 * size) for lower, upper, size in impossible(IMPOSSIBLE[0][0])] + [(0, 7, 20)]
    for k in range(1, 20):
        piece = cut(random.Random(k), 30, 200, 30)
        blocks = [*blocks, *((lower + 50 * k, upper + 50 * k, size) for lower, upper, size in piece)]
    assert search(blocks, 200)[0] is canonical.SearchVerdict.FAILS


@pytest.mark.parametrize("seed", range(10))
def test_pieces_of_a_full_rectangle_fit_into_it(seed: int) -> None:
    blocks = cut(random.Random(seed), 60, 80 << 20, 40 + 8 * seed)
    places = place(*zip(*blocks, strict=True), 80 << 20, 60.0, seed)
    assert places.verdict == "placed"
    assert not overlap(blocks, places.offsets)
    answer, offsets = search(blocks, 80 << 20, seed)
    assert answer is canonical.SearchVerdict.FITS
    assert not overlap(blocks, offsets)


def test_offsets_are_multiples_of_what_all_sizes_are_multiples_of() -> None:
    blocks = [(lower, upper, 64 * size) for lower, upper, size in cut(random.Random(3), 40, 90, 60)]
    offsets = place(*zip(*blocks, strict=True), 64 * 90).offsets
    assert len(offsets) == 60
    assert not any(at % 64 for at in offsets)


def test_no_time_no_verdict() -> None:
    blocks = cut(random.Random(1), 200, 10**9, 1000)
    assert place(*zip(*blocks, strict=True), 10**9, 0.0) == poet_planner.Places(Verdict.UNKNOWN)


def test_first_fit_ends_with_its_time() -> None:
    start = np.arange(1000)
    ended = TimeBudget(0.0, lambda: 0.0)
    assert best_first_fit(start, start + 9, start + 1, 0, ended)[1] == np.iinfo(np.int64).max


def test_the_complete_search_gives_up_where_it_would_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = cut(random.Random(0), 40, 400, 60)
    monkeypatch.setattr(canonical, "CHANGES", 4)
    assert search(blocks, 400)[0] is canonical.SearchVerdict.FITS
    for most_bytes in (2**10, 2**13):  # at once; once there is room for more changes than at first
        monkeypatch.setattr(canonical, "MOST_BYTES", most_bytes)
        assert search(blocks, 400)[0] is canonical.SearchVerdict.UNKNOWN


def test_numpy_arrays_and_nothing_at_all() -> None:
    assert place([], [], [], 0).verdict == "placed"
    assert place(np.array([0, 1]), np.array([2, 3]), np.array([8, 4], dtype=np.uint8), 12).verdict == "placed"
    assert place([0, 1], [2, 3], [8, 4], 11).verdict == "impossible"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [1, 2], [4], 8), "have 1, 2 and 1 numbers"),
        (([0, 3], [1, 3], [4, 4], 8), "block 1 lives from 3 until before 3"),
        (([0], [1], [-4], 8), "block 0 has -4 bytes"),
        (([0.5], [1], [4], 8), "lower: give one whole number for each block"),
        (([0], [1], [[4]], 8), "size: give one whole number for each block"),
        (([0], [2**63], [4], 8), "upper: give"),
        (([0], [1], [2**62], 8), "size: give numbers below 2^62"),
        (([0, 0], [1, 1], [2**61, 2**61], 8), "add up to 2^62"),
        (([0], [1], [4], -1), "capacity of -1"),
        (([0], [1], [4], 8.5), "capacity of 8.5"),
        (([0], [1], [4], 8, -1.0), "time limit of -1.0 s"),
        (([0], [1], [4], 8, float("nan")), "time limit of nan s"),
        (([0], [1], [4], 8, 1.0, -1), "seed -1"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*$") as refused:
        place(*arguments)  # type: ignore[arg-type]
    assert message in str(refused.value)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(a_block, st.integers(0, 12)), min_size=1, max_size=6))
def test_the_check_sees_every_overlap(placed: list[tuple[Block, int]]) -> None:
    blocks, offsets = [block for block, _ in placed], tuple(at for _, at in placed)
    lower, upper, size = zip(*blocks, strict=True)
    assert (fault(lower, upper, size, offsets, 100) is not None) == overlap(blocks, offsets)
    highest = max(at + b[2] for b, at in placed)
    assert fault(lower, upper, size, offsets, highest - 1) is not None
    assert fault(lower, upper, size, offsets[1:], 100) is not None
    assert fault(lower, upper, size, (-1, *offsets[1:]), 100) is not None
