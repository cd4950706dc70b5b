# SPDX-License-Identifier: Apache-2.0
"""A budget of time and what is made of it, by a clock that the test moves; and the clock of work."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from numba.core import event
from poet_planner.solve.options import OptimiseOptions
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, WorkClock, interruptible


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


def test_the_clock_of_work_stands_still_while_numba_compiles(hand: Hand) -> None:
    """One compilation sets off another inside itself, as a caller does its callees'."""
    clock = WorkClock(hand)
    began_s = clock()
    hand.now_s += 1.0
    with event.trigger_event("numba:compile"):
        hand.now_s += 10.0
        with event.trigger_event("numba:compile"):
            hand.now_s += 10.0
            assert clock() - began_s == 1.0
        assert clock() - began_s == 1.0
    hand.now_s += 2.0
    assert clock() - began_s == 3.0


def test_options_that_another_process_is_given_hear_the_compiler_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep's workers are given theirs by pickle."""
    clock = pickle.loads(pickle.dumps(OptimiseOptions())).clock
    hand = Hand()
    monkeypatch.setattr(clock, "_now", hand)
    began_s = clock()
    with event.trigger_event("numba:compile"):
        hand.now_s += 10.0
    hand.now_s += 2.0
    assert clock() - began_s == 2.0


def test_compiled_work_is_told_when_its_budget_expires(hand: Hand) -> None:
    def waits(stop: npt.NDArray[np.bool_]) -> str:
        while not stop[0]:
            time.sleep(0.001)
        return "stopped"

    asked = 0

    def third() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    assert interruptible(waits, TimeBudget(10.0, hand).until(third)) == "stopped"
    assert asked == 3
    assert interruptible(bool, TimeBudget(0.0, hand))
    assert not interruptible(bool, UNLIMITED)
