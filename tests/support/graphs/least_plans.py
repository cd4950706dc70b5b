# SPDX-License-Identifier: Apache-2.0
"""The optimiser's plan of a small graph, held against brute force."""

from __future__ import annotations

import math

import pytest
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_profiles.graph import Graph

from tests.support.graphs.brute_force import least_energy


def assert_planned_as_by_brute_force(graph: Graph, ram_bytes: int, deadline_s: float | None) -> None:
    """The optimiser's plan is sound, costs the least energy there is, and its bound is not above that.

    Where it has no plan, either none exists, or it says that it found none.
    """
    least = least_energy(graph, ram_bytes, deadline_s)
    try:
        schedule = optimise(graph, ram_bytes, deadline_s, OptimiseOptions(time_limit_s=2))
    except NoScheduleError as lack:
        assert math.isinf(least) or "none was found" in str(lack)
        return
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least, rel=1e-9)
    assert schedule.bound_j <= least * (1 + 1e-9)


def assert_proven_as_by_brute_force(
    graph: Graph, ram_bytes: int, deadline_s: float | None, exhausted: Graph | None = None
) -> None:
    """The same with time for a proof; ``exhausted`` is the graph whose least energy counts, if another one."""
    least = least_energy(exhausted or graph, ram_bytes, deadline_s)
    try:
        schedule = optimise(graph, ram_bytes, deadline_s, OptimiseOptions(time_limit_s=120))
    except NoScheduleError:
        assert math.isinf(least), graph.name
        return
    assert verify(graph, schedule).faults == (), graph.name
    assert schedule.energy_j == pytest.approx(least, rel=1e-9), graph.name
    assert schedule.bound_j <= least * (1 + 1e-9), graph.name
    assert schedule.gap <= 1e-6, graph.name
