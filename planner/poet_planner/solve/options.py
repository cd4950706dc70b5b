# SPDX-License-Identifier: Apache-2.0
"""What a caller may ask of the optimiser, and what it receives while waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from poet_profiles.errors import NO_SCHEDULE, NOT_FOUND, UserError
from poet_profiles.schedule import Objective, Schedule

from poet_planner.solve.statistics import Parts, Statistics

# Work of a plan where nothing else is asked for: reference seconds. It takes one core some 7 s.
DEFAULT_S = 10.0
# For the least RAM, where nothing is found: reference seconds, or a fraction of the time limit if that is more.
LEAST_RAM_S = 4.0
LEAST_RAM_SHARE = 0.25


@dataclass(frozen=True)
class Progress:
    """Where the optimiser stands. Energies in joules; None while there is none. ``note`` is a remark for the user.

    Where time is the objective, seconds stand in the place of joules.
    """

    seconds: float
    incumbent_j: float | None
    bound_j: float | None
    note: str = ""

    @property
    def gap(self) -> float | None:
        """(incumbent - bound) / incumbent."""
        if self.incumbent_j is None or self.bound_j is None:
            return None
        return (self.incumbent_j - self.bound_j) / self.incumbent_j if self.incumbent_j > 0 else 0.0


@dataclass(frozen=True)
class OptimiseOptions:
    """How to optimise.

    Attributes
    ----------
    time_limit_s : float
        After so much work the best schedule so far is the answer: in reference seconds, each what one core of a usual
        computer does in a second.
    capped : bool
        Whether the run ends after so many seconds of processor time, too, of all its threads together. On a slow
        computer these pass first, and then equal seeds may give different plans.
    seed : int
        Equal seeds give equal plans where the work and not the processor time ends the run.
    solver : str
        A name of `solvers`.
    paging : bool
        False plans as on a board without storage.
    objective : Objective
        What the schedule has as little of as possible.
    starts : tuple of Schedule
        Schedules that are known. The answer costs no more than any of them that keeps the limits.
    gap : float
        Stop when (energy - bound) / energy is no more than this.
    parts : Parts
        Which parts of the optimiser are on.
    statistics : Statistics or None
        Filled in with what each part did, even if there is no schedule in the end.
    progress : callable or None
        Called a few times a second.
    least_ram_s : float or None
        Where nothing is found, work for the least RAM that does: reference seconds, beside the time limit. No clock
        ends it, so what a refusal says does not depend on the computer. None: a share of the time limit.
    what_would_do : bool
        Whether a refusal of what is proven impossible looks for what would do; that takes as long as the least RAM may.
    clock : callable
        The processor time, in seconds.
    """

    time_limit_s: float = DEFAULT_S
    capped: bool = True
    seed: int = 0
    solver: str = "highs"
    paging: bool = True
    objective: Objective = Objective.ENERGY
    starts: tuple[Schedule, ...] = ()
    gap: float = 1e-6
    parts: Parts = field(default_factory=Parts)
    statistics: Statistics | None = None
    progress: Callable[[Progress], None] | None = None
    least_ram_s: float | None = None
    what_would_do: bool = True
    clock: Callable[[], float] = time.process_time

    @property
    def for_least_ram_s(self) -> float:
        """``least_ram_s``, or what it is if nothing is asked for."""
        if self.least_ram_s is not None:
            return self.least_ram_s
        return max(LEAST_RAM_S, LEAST_RAM_SHARE * self.time_limit_s)


class Refused(StrEnum):
    """What is known where there is no schedule: that none exists, or only what did not come of the search."""

    IMPOSSIBLE = "impossible"
    NOT_FOUND = "not found"
    NO_OFFSETS = "no offsets"
    NOT_RUN = "not run"


class NoScheduleError(UserError):
    """No schedule within the RAM and the deadline: none exists, as is proven, or none was found in the work allowed.

    Attributes
    ----------
    status : Refused
        Which of these. Its exit code is ``NO_SCHEDULE`` or ``NOT_FOUND``.
    impossible_below_bytes : int
        In less RAM there is none, as is proven; 0 where nothing is.
    possible_bytes : int or None
        The least RAM of the schedules that were found within the deadline: with as much, and the same options, there is
        a plan. None: no such schedule is known.
    impossible_below_s : float
        In less time there is none; 0 where nothing is known.
    possible_s : float or None
        The shortest time of a schedule that was found within the RAM; None: none is known.
    """

    def __init__(
        self,
        message: str,
        status: Refused = Refused.IMPOSSIBLE,
        impossible_below_bytes: int = 0,
        possible_bytes: int | None = None,
        impossible_below_s: float = 0.0,
        possible_s: float | None = None,
    ) -> None:
        super().__init__(message, NO_SCHEDULE if status is Refused.IMPOSSIBLE else NOT_FOUND)
        self.status = status
        self.impossible_below_bytes = impossible_below_bytes
        self.possible_bytes = possible_bytes
        self.impossible_below_s = impossible_below_s
        self.possible_s = possible_s

    def document(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "status": self.status.value,
            "message": str(self),
            "exit_code": self.exit_code,
            "impossible_below_bytes": self.impossible_below_bytes,
            "possible_bytes": self.possible_bytes,
            "impossible_below_s": self.impossible_below_s,
            "possible_s": self.possible_s,
        }

    def adding(self, words: str) -> NoScheduleError:
        """The same with more to say."""
        return NoScheduleError(
            f"{self}{words}",
            self.status,
            self.impossible_below_bytes,
            self.possible_bytes,
            self.impossible_below_s,
            self.possible_s,
        )
