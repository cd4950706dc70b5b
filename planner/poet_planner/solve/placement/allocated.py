# SPDX-License-Identifier: Apache-2.0
"""Schedules that need no offsets: what runs them allocates its values itself."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph

from poet_planner.solve.instance import Problem
from poet_planner.solve.placement.assign import PlacedSchedule
from poet_planner.solve.placement.first_fit import Placement, alive_bytes
from poet_planner.solve.search.decode import decode
from poet_planner.solve.search.incumbent import Incumbent


def allocated(graph: Graph, problem: Problem, incumbent: Incumbent) -> PlacedSchedule:
    """A schedule as steps without offsets; its arena is as large as the most that is alive at once."""
    decoded = decode(graph, problem, incumbent.events)
    peak = int(alive_bytes(graph, decoded.steps).max(initial=0))
    return PlacedSchedule(incumbent, replace(decoded, peak=peak), Placement(decoded.steps, peak))
