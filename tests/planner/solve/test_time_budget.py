# SPDX-License-Identifier: Apache-2.0
"""A budget and what is made of it, by a clock that the test moves, and by work."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, in_steps


@dataclass
class Hand:
    """A clock that stands where it is put."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_it_expires_when_its_seconds_have_passed(hand: Hand) -> None:
    budget = TimeBudget(10.0, hand)
    hand.now_s += 9.0
    assert budget.left() == 1.0 and not budget.expired
    hand.now_s += 1.0
    assert budget.expired
    assert TimeBudget(0.0, hand).expired


def test_a_share_is_of_what_is_left_when_it_is_taken(hand: Hand) -> None:
    budget = TimeBudget(10.0, hand)
    hand.now_s += 2.0
    half = budget.share(0.5)
    assert half.left() == 4.0
    assert half.share(0.25).left() == 1.0
    hand.now_s += 4.0
    assert half.expired and not budget.expired
    assert budget.share(0.5).left() == 2.0
    assert budget.share(1.0, most_s=0.5).left() == 0.5


def test_a_share_ends_with_its_whole(hand: Hand) -> None:
    budget = TimeBudget(10.0, hand)
    share = budget.share(1.0).share(1.0)
    budget.end()
    assert share.expired
    other = TimeBudget(10.0, hand)
    part = other.share(0.9)
    part.end()
    assert part.expired and not other.expired


def test_nothing_is_left_of_what_is_over(hand: Hand) -> None:
    budget = TimeBudget(1.0, hand)
    hand.now_s += 3.0
    assert budget.share(0.5).expired
    assert budget.keeping(lambda: 0.0).expired


def test_what_is_kept_is_asked_anew(hand: Hand) -> None:
    kept_s = 3.0
    budget = TimeBudget(10.0, hand).keeping(lambda: kept_s)
    share = budget.share(1.0)
    assert budget.left() == 7.0
    kept_s = 6.0
    assert budget.left() == share.left() == 4.0


def test_it_expires_for_a_reason_too(hand: Hand) -> None:
    done = False
    budget = TimeBudget(10.0, hand).until(lambda: done)
    share = budget.share(0.5)
    assert share.left() == 5.0
    done = True
    assert budget.expired and share.expired


def test_whoever_asks_a_part_is_noted(hand: Hand) -> None:
    asked = []
    budget = TimeBudget(10.0, hand).noting(lambda: asked.append(hand.now_s))
    assert not budget.share(0.5).until(lambda: False).expired
    assert asked == [1000.0, 1000.0]  # when the share was taken, and now


def test_shares_of_no_limit_have_none() -> None:
    assert UNLIMITED.share(0.1).left() == math.inf
    assert UNLIMITED.share(0.1, most_s=1.0).left() == pytest.approx(1.0, abs=0.9)


def test_work_is_spent_and_no_time() -> None:
    budget = TimeBudget(10.0)
    share = budget.share(0.5)
    share.spend(3.0)
    assert share.left() == 2.0 and budget.left() == 7.0
    budget.spend(2.0)
    assert share.expired and not budget.expired


def test_a_budget_by_another_clock_counts_no_work(hand: Hand) -> None:
    budget = TimeBudget(10.0, hand)
    budget.spend(8.0)
    assert budget.left() == 10.0
    assert budget.most_steps(5.0) > 10**9


def test_it_is_cut_by_all_but_its_own_seconds(hand: Hand) -> None:
    spent, ended, done, capped = (TimeBudget(1.0) for _ in range(4))
    spent.spend(1.0)
    assert spent.expired and not spent.share(1.0).is_cut
    share = ended.share(0.5)
    ended.end()
    assert share.is_cut
    assert done.until(lambda: True).share(1.0).is_cut
    late = capped.capped(5.0, hand)
    assert not late.is_cut and late.left() == 1.0
    hand.now_s += 5.0
    assert late.is_cut and late.expired and not capped.expired


def counts(tally: npt.NDArray[np.int64]) -> str:
    while tally[0] < tally[1]:
        tally[0] += 1
        time.sleep(0.001)
    return "ended"


def test_compiled_work_makes_the_steps_that_its_budget_has_left() -> None:
    budget = TimeBudget(10.0)
    share = budget.share(0.5)
    assert in_steps(counts, share, 0.25) == "ended"
    assert share.left() == 0.0 and budget.left() == 5.0
    assert in_steps(lambda tally: int(tally[1]), share, 0.25) == 0
    assert in_steps(lambda tally: int(tally[1]), UNLIMITED, 0.25) > 10**9


def test_compiled_work_is_told_when_its_budget_is_cut(hand: Hand) -> None:
    asked = 0

    def third() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    assert in_steps(counts, TimeBudget(math.inf).until(third), 1.0) == "ended"
    assert asked == 3


def test_what_is_paused_takes_none_of_the_seconds_nor_of_those_of_the_whole(hand: Hand) -> None:
    whole = TimeBudget(10.0, hand)
    part = whole.share(0.5)
    with part.paused():
        hand.now_s += 100.0
    assert (whole.left(), part.left()) == (10.0, 5.0)
    hand.now_s += 5.0
    assert part.expired and not whole.expired
