# SPDX-License-Identifier: Apache-2.0
"""What a scheduler is called, where it comes from, and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

if TYPE_CHECKING:
    from poet_planner.solve import OptimiseOptions


@dataclass(frozen=True)
class Method:
    """A scheduler to compare with.

    Attributes
    ----------
    name : str
        The name of its module.
    source : str
        Where it was published.
    schedule : callable
        ``schedule(graph, ram_bytes, deadline_s, options)``: a schedule within that RAM (resident tensors included)
        and that deadline (in seconds; None: no deadline), with offsets. It raises a `UserError` with the exit code
        ``NO_SCHEDULE`` where it finds none.
    recomputes : bool
        Whether it may compute a node again.
    pages : bool
        Whether it may move values to storage and back.
    chains_only : bool
        Whether it is made for networks whose layers form a chain.
    keeps_deadline : bool
        Whether it looks for a schedule within the deadline. Otherwise it refuses a schedule that happens to be late.
    """

    name: str
    source: str
    schedule: Callable[[Graph, int, float | None, OptimiseOptions], Schedule]
    recomputes: bool
    pages: bool
    chains_only: bool
    keeps_deadline: bool
