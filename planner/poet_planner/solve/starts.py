# SPDX-License-Identifier: Apache-2.0
"""Schedules that the optimiser is given: it begins from the best of them, and its answer costs no more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Action, Objective, Schedule, Status

from poet_planner.graph.batch import once_j
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import Ints


def cheapest_start(
    graph: Graph, ram_bytes: int, deadline_s: float | None, starts: Iterable[Schedule], paging: bool = True
) -> Schedule | None:
    """Of the schedules that keep the limits, by the verifier, the cheapest on ``graph``; None if there is none.

    Without ``paging`` those that page do not count.

    They may have been made for other limits. What they prove is not taken over: the bound is that of computing each
    node once.
    """
    return min(
        (
            one
            for start in starts
            if (paging or not _pages(start)) and (one := _for(graph, ram_bytes, deadline_s, start)) is not None
        ),
        key=lambda one: one.energy_j,
        default=None,
    )


def with_bound(start: Schedule, bound_j: float, gap: float) -> Schedule:
    """The schedule with a lower bound in joules; it is optimal within ``gap``, relative."""
    bound_j = min(bound_j, start.energy_j)
    left = (start.energy_j - bound_j) / start.energy_j if start.energy_j > 0 else 0.0
    return replace(start, bound_j=bound_j, gap=left, status=Status.OPTIMAL if left <= gap else Status.FEASIBLE)


def events_of(graph: Graph, schedule: Schedule) -> Ints:
    """What a schedule computes and pages in, as events (see `search.evaluation`)."""
    nodes = {node.id: j for j, node in enumerate(graph.nodes)}
    values = {value.id: v for v, value in enumerate(value for node in graph.nodes for value in node.values)}
    numbers = [
        nodes[step.target] if step.do is Action.COMPUTE else len(nodes) + values[step.target]
        for step in schedule.steps
        if step.do in (Action.COMPUTE, Action.PAGE_IN)
    ]
    return np.array(numbers, dtype=np.int64)


def _pages(start: Schedule) -> bool:
    return any(step.do in (Action.PAGE_IN, Action.PAGE_OUT) for step in start.steps)


def _for(graph: Graph, ram_bytes: int, deadline_s: float | None, start: Schedule) -> Schedule | None:
    report = verify(graph, start)
    made = replace(
        start,
        graph=graph.name,
        graph_hash=graph_hash(graph),
        ram_budget_bytes=ram_bytes,
        deadline_s=deadline_s,
        energy_j=report.energy_j,
        time_s=report.time_s,
        peak_bytes=report.peak_bytes,
        arena_bytes=report.arena_bytes,
        objective=Objective.ENERGY,
        bound_s=None,
    )
    made = with_bound(made, once_j(graph), 0.0)
    return made if verify(graph, made).sound else None
