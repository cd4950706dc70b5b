# SPDX-License-Identifier: Apache-2.0
"""A plan beside a training step's, in the same RAM."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule


@dataclass(frozen=True)
class PlanBeside:
    """A graph whose residents and constants begin with the training's, and its verified schedule.

    The two never run at once: what is after the training's residents belongs to whichever runs.
    """

    graph: Graph
    schedule: Schedule

    @property
    def ram_bytes(self) -> int:
        """Of residents and arena."""
        return self.graph.resident_bytes + self.schedule.arena_bytes
