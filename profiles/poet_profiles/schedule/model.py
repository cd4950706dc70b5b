# SPDX-License-Identifier: Apache-2.0
"""A training schedule, `poet-schedule/1` (docs/SPEC.md, section 4), as plain data.

Reading and writing the JSON form is `schedule_file`.
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


class Status(StrEnum):
    """Whether the schedule is proven to be of least energy."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


@dataclass(frozen=True)
class Step:
    """One step. ``offsets`` are arena bytes by value id (compute, page_in); empty before addresses are assigned."""

    do: Action
    target: str
    offsets: dict[str, int] = field(default_factory=dict)
    workspace_offset: int | None = None


@dataclass(frozen=True)
class Schedule:
    """A complete answer of the planner."""

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
