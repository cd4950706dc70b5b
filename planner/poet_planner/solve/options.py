# SPDX-License-Identifier: Apache-2.0
"""What a caller may ask of the optimiser, and what it receives while waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.schedule import Objective, Schedule

from poet_planner.solve.params import DEFAULTS, Params
from poet_planner.solve.statistics import Parts, Statistics

# Work of a plan where nothing else is asked for: reference seconds. It takes one core some 7 s.
DEFAULT_S = 10.0


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
    params : Params
        The tuned numbers of all parts.
    statistics : Statistics or None
        Filled in with what each part did, even if there is no schedule in the end.
    progress : callable or None
        Called a few times a second.
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
    params: Params = DEFAULTS
    statistics: Statistics | None = None
    progress: Callable[[Progress], None] | None = None
    clock: Callable[[], float] = time.process_time


class NoScheduleError(UserError):
    """No schedule exists within the RAM and the deadline, or none was found in the time allowed.

    Attributes
    ----------
    smallest_ram_bytes : int
        With this much RAM there is a schedule (within the deadline).
    shortest_time_s : float
        The shortest time found within the RAM asked for; infinite if that RAM does not do at any time.
    infeasible_ram_bytes : int
        With this much RAM there is none, as is proven; 0 where nothing is.
    """

    def __init__(
        self, message: str, smallest_ram_bytes: int, shortest_time_s: float, infeasible_ram_bytes: int = 0
    ) -> None:
        super().__init__(message, exit_code=NO_SCHEDULE)
        self.smallest_ram_bytes = smallest_ram_bytes
        self.shortest_time_s = shortest_time_s
        self.infeasible_ram_bytes = infeasible_ram_bytes
