# SPDX-License-Identifier: Apache-2.0
"""`place`: offsets for any blocks, by two engines side by side, each answer checked (docs/optimiser/placement.md)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from poet_profiles.errors import UserError

from poet_planner.placement.overlaps import fault
from poet_planner.solve.instance import MOST_RAM_BYTES, Ints
from poet_planner.solve.placement import canonical
from poet_planner.solve.placement.first_fit import best_first_fit, most_alive, within
from poet_planner.solve.time_budget import TimeBudget

Numbers = Sequence[int] | npt.NDArray[np.integer]

MOST_ROUNDS = 10**9  # of the ejection search: until the time is up


class Verdict(StrEnum):
    """What is known about blocks and a capacity."""

    PLACED = "placed"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


# Of what the complete search answers.
VERDICTS = {
    canonical.SearchVerdict.FITS: Verdict.PLACED,
    canonical.SearchVerdict.FAILS: Verdict.IMPOSSIBLE,
    canonical.SearchVerdict.UNKNOWN: Verdict.UNKNOWN,
}


@dataclass(frozen=True)
class Places:
    """What `place` found out.

    Attributes
    ----------
    verdict : Verdict
        ``"placed"``; ``"impossible"``: proven; ``"unknown"``: the time was up.
    offsets : tuple of int
        Bytes, in the order of the blocks; empty unless they are placed.
    """

    verdict: Verdict
    offsets: tuple[int, ...] = ()


def place(
    lower: Numbers, upper: Numbers, size: Numbers, capacity: int, time_limit_s: float = 10.0, seed: int = 0
) -> Places:
    """Offsets for blocks, so that no two that live at once overlap and none ends above the capacity.

    First fit comes first. If it fails, the ejection search and the complete search run side by side, each in a thread,
    until one of them has an answer. So equal seeds may give different offsets.

    Parameters
    ----------
    lower, upper : sequence of int
        Block k lives from ``lower[k]`` until before ``upper[k]``, in any unit of time.
    size : sequence of int
        Bytes. If all are multiples of some number, the offsets are, too: round sizes up to align blocks.
    capacity : int
        Bytes.
    time_limit_s : float
        For the searches, in seconds by the wall's clock.
    seed : int
        Another seed gives another search.

    Raises
    ------
    UserError
        If an argument makes no sense.
    """
    start, end, bytes_ = _whole("lower", lower), _whole("upper", upper), _whole("size", size)
    _refuse_unsound(start, end, bytes_, capacity, time_limit_s, seed)
    capacity = min(int(capacity), MOST_RAM_BYTES)
    full = bytes_ > 0
    offsets = np.zeros_like(bytes_)
    if full.any():
        budget = TimeBudget(time_limit_s, time.monotonic)
        verdict, offsets[full] = _placed(start[full], end[full], bytes_[full], capacity, budget, seed)
        if verdict is not Verdict.PLACED:
            return Places(verdict)
    placed = tuple(offsets.tolist())
    if found := fault(start.tolist(), end.tolist(), bytes_.tolist(), placed, capacity):
        raise RuntimeError(f"poet's placement is wrong, please report it: {found}")
    return Places(Verdict.PLACED, placed)


def _placed(start: Ints, end: Ints, size: Ints, capacity: int, budget: TimeBudget, seed: int) -> tuple[Verdict, Ints]:
    if most_alive(start, end, size) > capacity:
        return Verdict.IMPOSSIBLE, size
    offsets, height = best_first_fit(start, end, size, capacity, budget)
    if height <= capacity:
        return Verdict.PLACED, offsets
    if budget.expired:
        return Verdict.UNKNOWN, size
    answer: list[tuple[Verdict, Ints]] = []
    until_answered = budget.until(lambda: bool(answer))

    def complete() -> tuple[Verdict, Ints]:
        found, offsets = canonical.search(start, end, size, capacity, seed, until_answered)
        return VERDICTS[found], offsets

    def ejection() -> tuple[Verdict, Ints]:
        offsets = within(start, end, size, capacity, MOST_ROUNDS, until_answered, seed % 2**31)
        return Verdict.UNKNOWN if (offsets < 0).any() else Verdict.PLACED, offsets

    with ThreadPoolExecutor(2) as threads:
        working: set[Future[tuple[Verdict, Ints]]] = {threads.submit(complete), threads.submit(ejection)}
        try:
            while working and not answer:
                done, working = wait(working, return_when=FIRST_COMPLETED)
                answer += [each.result() for each in done if each.result()[0] is not Verdict.UNKNOWN]
        finally:
            answer.append((Verdict.UNKNOWN, size))
    return answer[0]


def _whole(name: str, numbers: Numbers) -> Ints:
    """An argument as an array.

    Raises
    ------
    UserError
        Unless it is a row of whole numbers.
    """
    array = np.asarray(numbers)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise UserError(f"{name}: give one whole number for each block")
    if array.size and max(abs(int(array.min())), abs(int(array.max()))) >= MOST_RAM_BYTES:
        raise UserError(f"{name}: give numbers below 2^62")
    return array.astype(np.int64)


def _refuse_unsound(start: Ints, end: Ints, size: Ints, capacity: int, time_limit_s: float, seed: int) -> None:
    """Refuse what makes no sense."""
    if not len(start) == len(end) == len(size):
        raise UserError(
            f"lower, upper and size have {len(start)}, {len(end)} and {len(size)} numbers: give one of each for a block"
        )
    if (empty := np.nonzero(start >= end)[0]).size:
        k = empty[0]
        raise UserError(f"block {k} lives from {start[k]} until before {end[k]}: give an upper above its lower")
    if (negative := np.nonzero(size < 0)[0]).size:
        raise UserError(f"block {negative[0]} has {size[negative[0]]} bytes: give no negative size")
    if size.astype(float).sum() >= MOST_RAM_BYTES:
        raise UserError("the sizes add up to 2^62 bytes or more: give them in a larger unit")
    if not isinstance(capacity, int | np.integer) or capacity < 0:
        raise UserError(f"capacity of {capacity} bytes: give a whole number that is not negative")
    if math.isnan(time_limit_s) or time_limit_s < 0:
        raise UserError(f"time limit of {time_limit_s} s: give seconds that are not negative")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UserError(f"seed {seed}: give a whole number that is not negative")
