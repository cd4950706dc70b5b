# SPDX-License-Identifier: Apache-2.0
"""What the points of one graph tell of one another.

A schedule keeps every larger RAM budget and later deadline, and a lower bound holds for every smaller and earlier one.
A schedule of any method is one that the optimiser, too, could have found. So along a sweep less RAM never costs less,
and no method is below the optimiser, whatever the time limits were.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from poet_profiles.schedule import Status

from poet_planner.comparison.methods.ablations import PAGING, REMATERIALIZATION
from poet_planner.comparison.sweep_table import Point
from poet_planner.planning.method import OPTIMAL
from poet_planner.solve.optimise import PROVEN_GAP

# Energies that differ by less are the same, added up in another order: relative.
SAME_ENERGY = 1e-9
_OF_A_SCHEDULE = (
    *("energy_j", "overhead", "recompute_j", "page_in_j", "page_out_j", "time_s", "peak_bytes", "arena_bytes"),
    *("recomputes", "page_ins", "page_outs", "bytes_paged"),
)


def settled(points: Iterable[Point]) -> list[Point]:
    """The points, those of the optimiser with the cheapest schedule and the highest bound that any point knows.

    So are its plans with one technique alone, of the schedules that do with that. Other methods stand as they planned.
    """
    listed = list(points)
    of_graph = defaultdict(list)
    for point in listed:
        of_graph[point.model, point.board, point.graph_hash, point.costs_hash, point.seed].append(point)
    shared = {point.place: _settled(point, group) for group in of_graph.values() for point in group}
    return [shared[point.place] for point in listed]


def _settled(point: Point, group: list[Point]) -> Point:
    if point.method not in (OPTIMAL.name, PAGING.name, REMATERIALIZATION.name):
        return point
    tighter = [one for one in group if _keeps_limits_of(one, point) and _is_known_to(one, point.method)]
    best = min(tighter, key=_energy_j, default=point)
    if _energy_j(best) < _energy_j(point) * (1 - SAME_ENERGY):
        taken = {name: getattr(best, name) for name in _OF_A_SCHEDULE}
        note = f"the schedule of {best.method} for {best.ram_budget_bytes} B"
        point = replace(point, **taken, status=Status.FEASIBLE.value, gap=None, note=note)
    return _bounded(point, group) if point.method == OPTIMAL.name else point


def _bounded(point: Point, group: list[Point]) -> Point:
    """With the highest bound of those that have at least its RAM and time."""
    if point.energy_j is None:
        return point
    looser = [one for one in group if one.method == OPTIMAL.name and _keeps_limits_of(point, one)]
    highest_j = max((one.bound_j for one in looser if one.bound_j is not None), default=point.plain_energy_j)
    bound_j = min(point.energy_j, highest_j)
    if point.gap is not None and bound_j == point.bound_j:
        return point
    gap = (point.energy_j - bound_j) / point.energy_j if point.energy_j else 0.0
    status = Status.OPTIMAL if gap <= PROVEN_GAP else Status.FEASIBLE
    return replace(point, bound_j=bound_j, gap=gap, status=status.value)


def _keeps_limits_of(one: Point, other: Point) -> bool:
    """Whether a schedule within the limits of ``one`` is within the limits of ``other``."""
    return one.ram_budget_bytes <= other.ram_budget_bytes and _deadline_s(one) <= _deadline_s(other)


def _is_known_to(one: Point, method: str) -> bool:
    """Whether its schedule is one that the method looks among."""
    if method == PAGING.name:
        return not one.recomputes
    return method == OPTIMAL.name or not (one.page_ins or one.page_outs)


def _energy_j(point: Point) -> float:
    return math.inf if point.energy_j is None else point.energy_j


def _deadline_s(point: Point) -> float:
    return math.inf if point.deadline_s is None else point.deadline_s
