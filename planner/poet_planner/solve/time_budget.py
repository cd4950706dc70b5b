# SPDX-License-Identifier: Apache-2.0
"""How long work may go on: a budget of work, handed on whole or in shares.

    budget = TimeBudget(60.0)
    while not budget.expired:
        budget.spend(look_further(budget.share(0.1)))

Work is counted in *reference seconds*: what one core of a usual computer of 2026 does in a second. Whatever works for
long counts what it does in steps whose cost is known, and spends as much of its budget. So equal work is done on a
quiet computer and on a busy one, and equal seeds give equal plans. It asks its budget a few times a second, and ends
once that has expired. Some parts report how far they are besides, by an `OnProgress`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Result = TypeVar("Result")

WAIT_S = 0.02
MOST_STEPS = 2**62
# What cannot be limited in steps is given up when it takes so much longer than its work should, or seconds more.
PATIENCE = 20.0
PATIENCE_S = 60.0

# Given a lower bound and the best that is known, both in the unit of what is minimised; infinite where there is none.
OnProgress = Callable[[float, float], None]


def ignore_progress(_bound: float, _incumbent: float) -> None:
    """The `OnProgress` of whoever does not want to know."""


class Work:
    """The work that has been done, in reference seconds: a clock that only work moves."""

    def __init__(self) -> None:
        self.done_s = 0.0

    def __call__(self) -> float:
        return self.done_s


class TimeBudget:
    """Seconds that are left.

    Parameters
    ----------
    seconds : float
        From now on; infinite: there is no end but that of `end`.
    clock : callable or None
        In seconds. None: of work, which `spend` counts.
    """

    def __init__(self, seconds: float = math.inf, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or Work()
        self._end_s = self._clock() + seconds
        self._is_ended = False

    def left(self) -> float:
        """Seconds; none or less than none once it has expired."""
        return self._end_s - self._clock()

    @property
    def expired(self) -> bool:
        return self.left() <= 0

    @property
    def counts_work(self) -> bool:
        """Whether its clock is that of work, and not one that goes on by itself."""
        return isinstance(self._clock, Work)

    @property
    def is_cut(self) -> bool:
        """Whether it has expired for a reason other than that its seconds are spent."""
        return self._is_ended

    def spend(self, seconds: float) -> None:
        """So much work has been done. A budget by another clock than that of work takes no notice."""
        if isinstance(self._clock, Work):
            self._clock.done_s += seconds

    def most_steps(self, step_s: float) -> int:
        """The steps of so many seconds that are left; by another clock than that of work, as many as one likes."""
        left_s = self.left()
        if left_s <= 0:
            return 0
        return int(min(MOST_STEPS, left_s / step_s)) if self.counts_work else MOST_STEPS

    def wall_s(self) -> float:
        """A limit for a solver, by the wall's clock: that of work is what should end it long before."""
        left_s = max(0.0, self.left())
        return PATIENCE * left_s + PATIENCE_S if self.counts_work else left_s

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """What goes on in it takes none of the seconds."""
        began_s = self._clock()
        try:
            yield
        finally:
            self._put_off(self._clock() - began_s)

    def _put_off(self, seconds: float) -> None:
        self._end_s += seconds

    def end(self) -> None:
        """Let it expire now, and with it all that was made of it."""
        self._end_s = self._clock()
        self._is_ended = True

    def share(self, fraction: float, most_s: float = math.inf) -> TimeBudget:
        """A fraction of what is left now, and no more than ``most_s`` seconds."""
        return _Part(self, min(fraction * self.left(), most_s))

    def keeping(self, kept_s: Callable[[], float]) -> TimeBudget:
        """All but the seconds that ``kept_s`` wants to be kept, which is asked anew each time."""
        return _Part(self, kept_s=kept_s)

    def until(self, done: Callable[[], bool]) -> TimeBudget:
        """The same, but that it has expired as soon as ``done`` says so, which is asked whenever the budget is."""
        return _Part(self, done=done)

    def noting(self, note: Callable[[], object]) -> TimeBudget:
        """The same, but that ``note`` is called whenever it is asked: a few times a second, by whoever is at work."""
        return _Part(self, note=note)

    def capped(self, seconds: float, clock: Callable[[], float]) -> TimeBudget:
        """The same, but that it has expired after so many seconds of another clock, too."""
        end_s = clock() + seconds
        return self.until(lambda: clock() >= end_s)


UNLIMITED = TimeBudget()


class _Part(TimeBudget):
    """What is made of another budget: it ends with that at the latest."""

    def __init__(
        self,
        whole: TimeBudget,
        seconds: float = math.inf,
        kept_s: Callable[[], float] = lambda: 0.0,
        done: Callable[[], bool] = lambda: False,
        note: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(seconds, whole._clock)
        self._whole = whole
        self._kept_s = kept_s
        self._done = done
        self._note = note

    def left(self) -> float:
        self._note()
        return 0.0 if self._done() else min(super().left(), self._whole.left() - self._kept_s())

    def _put_off(self, seconds: float) -> None:
        super()._put_off(seconds)
        self._whole._put_off(seconds)

    @property
    def is_cut(self) -> bool:
        self._note()
        return super().is_cut or self._done() or self._whole.is_cut


def in_steps(work: Callable[[Ints], Result], budget: TimeBudget, step_s: float) -> Result:
    """What compiled ``work`` comes to, in a thread of its own; the budget is spent by its steps.

    ``work`` counts its steps in its argument, a tally (2,): the steps so far, and the most. It ends soon once there are
    as many: these are the steps that the budget has left, or none any more once it has expired for another reason. A
    step takes ``step_s`` reference seconds.
    """
    tally = np.array([0, budget.most_steps(step_s)], dtype=np.int64)
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work, tally)
        try:
            while not wait_for([working], WAIT_S).done and not budget.expired:
                pass
        finally:
            tally[1] = 0
        result = working.result()
    budget.spend(float(tally[0]) * step_s)
    return result
