# SPDX-License-Identifier: Apache-2.0
"""How long work may go on: a budget of seconds, handed on whole or in shares.

    budget = TimeBudget(60.0)
    while not budget.expired:
        look_further(budget.share(0.1))

Whatever works for long asks its budget a few times a second, and ends once that has expired. Some parts report how far
they are besides, by an `OnProgress`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba.core import event

Flags = npt.NDArray[np.bool_]
Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)

WAIT_S = 0.02

# Told a lower bound and the best that is known, both in the unit of what is minimised; infinite where there is none.
OnProgress = Callable[[float, float], None]


def ignore_progress(_bound: float, _incumbent: float) -> None:
    """The `OnProgress` of whoever does not want to hear."""


class WorkClock(event.Listener):
    """Seconds of work; only differences mean anything.

    It stands still while numba compiles, once a machine: so a time limit buys the first plan as much search as every
    later one, and equal seeds give equal plans.

    Parameters
    ----------
    now : callable
        The clock below, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._depth = 0
        self._began_s = 0.0
        self._compiled_s = 0.0
        event.register("numba:compile", self)  # type: ignore[no-untyped-call]

    def __reduce__(self) -> tuple[type[WorkClock], tuple[Callable[[], float]]]:
        """In another process it is a new one, which hears the compiler there."""
        return WorkClock, (self._now,)

    def __call__(self) -> float:
        now_s = self._now()
        return (self._began_s if self._depth else now_s) - self._compiled_s

    def on_start(self, _event: event.Event) -> None:
        """One compilation sets off others inside itself."""
        _announce()
        if self._depth == 0:
            self._began_s = self._now()
        self._depth += 1

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._compiled_s += self._now() - self._began_s


@cache
def _announce() -> None:
    _LOG.warning("compiling the optimiser, once on this machine: a minute or two, beyond any time limit")


work_clock = WorkClock(time.monotonic)


class TimeBudget:
    """Seconds of work that are left.

    Parameters
    ----------
    seconds : float
        From now on; infinite: there is no end but that of `end`.
    clock : callable
        In seconds.
    """

    def __init__(self, seconds: float = math.inf, clock: Callable[[], float] = work_clock) -> None:
        self._clock = clock
        self._end_s = clock() + seconds

    def left(self) -> float:
        """Seconds; none or less than none once it has expired."""
        return self._end_s - self._clock()

    @property
    def expired(self) -> bool:
        return self.left() <= 0

    def end(self) -> None:
        """Let it expire now, and with it all that was made of it."""
        self._end_s = self._clock()

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


def interruptible(work: Callable[[Flags], Result], budget: TimeBudget) -> Result:
    """What ``work`` comes to: compiled, in a thread of its own, for it cannot ask a budget.

    Parameters
    ----------
    work : callable
        Ends soon once its argument, a flag (1,), is set. That is so when the budget has expired, even at the beginning.
    """
    stop = np.array([budget.expired])
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work, stop)
        try:
            while not wait_for([working], WAIT_S).done and not budget.expired:
                pass
        finally:
            stop[0] = True
        return working.result()
