# SPDX-License-Identifier: Apache-2.0
"""What a scheduler is called, where it comes from, and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

if TYPE_CHECKING:
    from poet_planner.solve import OptimiseOptions


class Aware(StrEnum):
    """Whether a method takes something into account."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True)
class Method:
    """A scheduler to compare with.

    Attributes
    ----------
    name : str
        As the user gives it.
    source : str
        Where it was published.
    decides : str
        What it chooses, in a few words.
    schedule : callable
        ``schedule(graph, ram_bytes, deadline_s, options)``: a schedule within that RAM (resident tensors included)
        and that deadline (in seconds; None: no deadline), with offsets. It raises a `UserError` with the exit code
        ``NO_SCHEDULE`` where it finds none.
    recomputes : bool
        Whether it may compute a node again.
    pages : bool
        Whether it may move values to storage and back.
    keeps_deadline : bool
        Whether it looks for a schedule within the deadline. Otherwise it refuses a schedule that happens to be late.
    general : Aware
        Whether it plans graphs that branch, without making chains of them (this and the following: Table 1 of the POET
        paper).
    compute_aware : Aware
        Whether a plan depends on what each node costs.
    memory_aware : Aware
        Whether a plan depends on the size of each value, and is made for a RAM budget.
    power_aware : Aware
        Whether a plan depends on the energy of computes and transfers, and not on their time alone.
    """

    name: str
    source: str
    decides: str
    schedule: Callable[[Graph, int, float | None, OptimiseOptions], Schedule]
    recomputes: bool
    pages: bool
    keeps_deadline: bool
    general: Aware
    compute_aware: Aware
    memory_aware: Aware
    power_aware: Aware
