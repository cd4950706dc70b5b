# SPDX-License-Identifier: Apache-2.0
"""Schedules for boards that allocate values themselves, as PyTorch does."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule, Step


def without_offsets(graph: Graph, schedule: Schedule) -> Schedule:
    """``schedule`` without offsets, if ``graph`` needs none: its arena is as large as its values together."""
    if not graph.allocates:
        return schedule
    steps = tuple(Step(step.do, step.target) for step in schedule.steps)
    return replace(schedule, steps=steps, arena_bytes=schedule.peak_bytes - graph.resident_bytes)
