# SPDX-License-Identifier: Apache-2.0
"""A training schedule, `poet-schedule/1` (docs/SPEC.md, section 4), as plain data.

Reading and writing the JSON form is `schedule.file`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Action(StrEnum):
    """What one step does; `compute` names a node, the others a value."""

    COMPUTE = "compute"
    PAGE_IN = "page_in"
    PAGE_OUT = "page_out"
    FREE = "free"


class Objective(StrEnum):
    """What a schedule is to have as little of as possible.

    ``time`` is the sum of the seconds of all computes and transfers: a transfer beside a compute counts in full.
    """

    ENERGY = "energy"
    TIME = "time"


class Status(StrEnum):
    """Whether it is proven that no schedule does better by the objective."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    do : Action
    target : str
        Id of a node (compute) or of a value.
    offsets : dict of str to int
        Bytes from the beginning of the arena, by value id (compute, page_in); empty before offsets are assigned.
    workspace_offset : int or None
        The same for the node's workspace.
    """

    do: Action
    target: str
    offsets: dict[str, int] = field(default_factory=dict)
    workspace_offset: int | None = None


@dataclass(frozen=True)
class Schedule:
    """A complete answer of the planner.

    Attributes
    ----------
    graph : str
        Name of the graph that it is for.
    graph_hash : str
        Of that graph's file (docs/SPEC.md, section 3).
    ram_budget_bytes : int
        What was allowed, resident tensors included.
    deadline_s : float or None
        Seconds that were allowed; None: no deadline.
    steps : tuple of Step
    energy_j, time_s : float
        Of one training step: joules above the idle power, seconds.
    peak_bytes : int
        The most RAM that is allocated at once, resident tensors included.
    arena_bytes : int
        What the offsets need, without the resident tensors; without offsets, what the values need at once.
    status : Status
    bound_j : float
        No schedule within the same RAM and deadline takes less energy, in joules.
    gap : float
        (energy_j - bound_j) / energy_j; by time (time - bound_s) / time, the time as in `Objective`.
    objective : Objective
    bound_s : float or None
        No schedule within the same RAM and deadline takes less time, as in `Objective`; None where energy is the
        objective.
    """

    graph: str
    graph_hash: str
    ram_budget_bytes: int
    deadline_s: float | None
    steps: tuple[Step, ...]
    energy_j: float
    time_s: float
    peak_bytes: int
    arena_bytes: int
    status: Status
    bound_j: float
    gap: float
    objective: Objective = Objective.ENERGY
    bound_s: float | None = None
