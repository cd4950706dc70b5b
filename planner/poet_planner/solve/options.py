# SPDX-License-Identifier: Apache-2.0
"""What a caller may ask of the optimiser, and what it hears while waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from poet_profiles.errors import NO_SCHEDULE, UserError


@dataclass(frozen=True)
class Progress:
    """Where the optimiser stands. Energies in joules; None while there is none. ``note`` is a remark for the user."""

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
class Parts:
    """Which parts of the optimiser are on. Without any of them a plan is as sound, but may cost more or be less proven.

    Attributes
    ----------
    eviction : bool
        Starts made by passes of cost-aware eviction.
    crossover : bool
        Annealing passes from offspring of two good schedules.
    lagrangian : bool
        Annealing passes with a Lagrange multiplier in place of the deadline.
    energy_cap : bool
        Annealing passes with an energy cap just below the best schedule (strategic oscillation).
    background_search : bool
        Annealing beside the proof, in a thread of its own.
    exhaustive : bool
        The optimum of graphs of at most eight nodes.
    retained_sets : bool
        Shortest paths over the sets of values that stay in RAM at the bottleneck nodes.
    milp_neighbourhood : bool
        A MILP that chooses the best schedule's recomputations and page-ins anew.
    state_space : bool
        Shortest paths over memory states; without it no ``aggregation`` of them either.
    aggregation : bool
        Values that are cheap to get from one another, as one.
    bottleneck_heuristic : bool
        Shortest paths over memory states, led by the bottleneck nodes.
    relaxation : bool
        The order-free relaxation: its LP and all that follows here down to ``milp``.
    event_points : bool
        Few event points first, and those where the relaxation overflows; else all of them.
    conflicts : bool
        Values that cannot be in RAM together without paging.
    cover_cuts : bool
        Restoration and cover cuts.
    rounding_cuts : bool
        Chvátal-Gomory rounding of the capacity rows.
    stage_cuts : bool
        Benders cuts of the stage subproblem, and the proof beyond the relaxation's optimum that rests on them.
    branching : bool
        Branching on aggregated integers before the MILP solver.
    milp : bool
        The MILP solver on what the LP leaves.
    ejection : bool
        Ejection search for offsets, where lowest fit fails.
    replanning : bool
        Planning again with RAM in reserve, where no offsets are found.
    """

    eviction: bool = True
    crossover: bool = True
    lagrangian: bool = True
    energy_cap: bool = True
    background_search: bool = True
    exhaustive: bool = True
    retained_sets: bool = True
    milp_neighbourhood: bool = True
    state_space: bool = True
    aggregation: bool = True
    bottleneck_heuristic: bool = True
    relaxation: bool = True
    event_points: bool = True
    conflicts: bool = True
    cover_cuts: bool = True
    rounding_cuts: bool = True
    stage_cuts: bool = True
    branching: bool = True
    milp: bool = True
    ejection: bool = True
    replanning: bool = True


@dataclass(frozen=True)
class OptimiseOptions:
    """How to optimise.

    Attributes
    ----------
    time_limit_s : float
        After this the best schedule so far is the answer.
    seed : int
        Equal seeds give equal plans where the work and not the clock ends the run.
    solver : str
        A name of `solvers`.
    paging : bool
        False plans as on a board without storage.
    gap : float
        Stop when (energy - bound) / energy is no more than this.
    parts : Parts
        Which parts of the optimiser are on.
    progress : callable or None
        Called a few times a second.
    """

    time_limit_s: float = 60.0
    seed: int = 0
    solver: str = "highs"
    paging: bool = True
    gap: float = 1e-6
    parts: Parts = field(default_factory=Parts)
    progress: Callable[[Progress], None] | None = None


class NoScheduleError(UserError):
    """No schedule exists within the RAM and the deadline, or none was found in the time allowed.

    Attributes
    ----------
    smallest_ram_bytes : int
        With this much RAM there is a schedule (within the deadline).
    shortest_time_s : float
        The shortest time found within the RAM asked for; infinite if that RAM does not do at any time.
    """

    def __init__(self, message: str, smallest_ram_bytes: int, shortest_time_s: float) -> None:
        super().__init__(message, exit_code=NO_SCHEDULE)
        self.smallest_ram_bytes = smallest_ram_bytes
        self.shortest_time_s = shortest_time_s
