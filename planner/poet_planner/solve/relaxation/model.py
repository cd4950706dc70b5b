# SPDX-License-Identifier: Apache-2.0
"""The order-free MILP: a lower bound on the energy of every schedule.

*Event points* are the first computes of some nodes that lie on one path of the graph. So every schedule passes them in
the same order. Stage t lies between event points t - 1 and t. The RAM is limited at the event points alone, and the
order inside a stage is free.

See docs/optimiser/relaxation.md for the rows and their proofs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import (
    Flags,
    Floats,
    Ints,
    Problem,
    dearest_page_j,
    energy_unit_j,
    inputs_of,
    outside_working_set,
    working_set_bytes,
)
from poet_planner.solve.milp.linear_model import SCALE, LinearModel, Rows
from poet_planner.solve.relaxation.columns import Columns
from poet_planner.solve.topology import ancestors


@dataclass(frozen=True)
class Relaxation:
    """The MILP, what its columns mean, and how many units of its objective make a joule."""

    model: LinearModel
    columns: Columns
    scale: float


def about_entries(problem: Problem, event_points: int) -> int:
    """About how many coefficients the model has with so many event points."""
    return (event_points + 1) * (5 * len(problem.input_value) + 8 * len(problem.size)) // 2


def seconds_to_state_lp(entries: int) -> float:
    """About how long it takes until HiGHS has an LP of so many coefficients."""
    return entries / 5e5


def build_relaxation(problem: Problem, event_points: Ints, cutoff_j: float) -> Relaxation:
    """The MILP for ``problem`` with the given event points.

    The event points are nodes on one path, in its order. Columns that no schedule below ``cutoff_j`` (joules, may be
    infinite) can use are left out.
    """
    n, m, last = len(problem.node_time), len(problem.size), len(event_points)
    store_all_j = float(problem.node_energy.sum())
    scale = SCALE / energy_unit_j(store_all_j, cutoff_j if np.isfinite(cutoff_j) else dearest_page_j(problem))
    spare_j = (cutoff_j - store_all_j) * (1 + 1e-9)
    above = ancestors(problem)
    earliest = np.zeros(n, dtype=np.int64)
    latest = np.full(n, last, dtype=np.int64)
    for t in range(last - 1, -1, -1):
        latest[above[:, event_points[t]]] = t
    for t in range(last):
        earliest[above[event_points[t]]] = t + 1
    earliest[event_points] = latest[event_points] = np.arange(last)

    stage = np.arange(last + 1)[:, None]
    repeatable = problem.recomputable & (problem.node_energy <= spare_j)
    pageable = problem.pageable & (problem.in_energy + problem.out_energy <= spare_j)
    takes_ram = problem.size > 0
    can_compute = (stage >= earliest) & (repeatable | (stage <= latest))
    useful = np.array([takes_ram[problem.output_start[j] : problem.output_start[j + 1]].any() for j in range(n)])
    can_compute &= useful | (stage <= latest)
    exists = stage >= earliest[problem.producer]
    can_page = exists & pageable
    spare_bytes = problem.budget - working_set_bytes(problem)[event_points]
    beside = np.array([outside_working_set(problem, int(node)) for node in event_points]).reshape(last, m)
    # An LP does not see that a value larger than the bytes left cannot be in RAM.
    can_keep = (exists & takes_ram)[:last] & (~beside | (problem.size <= spare_bytes[:, None]))

    just_in_time = not problem.dma or not np.isfinite(problem.deadline)
    columns = 0
    compute, columns = _numbered(can_compute, columns)
    page_in, columns = _numbered(can_page, columns)
    keep, columns = _numbered(can_keep, columns)
    page_out, columns = _numbered(pageable, columns)
    cost = np.zeros(columns)
    for numbers, energy in ((compute, problem.node_energy), (page_in, problem.in_energy)):
        cost[numbers[numbers >= 0]] = np.broadcast_to(energy * scale, numbers.shape)[numbers >= 0]
    cost[page_out[page_out >= 0]] = (problem.out_energy * scale)[page_out >= 0]
    lower = np.zeros(columns)
    upper = np.ones(columns)
    lower[compute[np.arange(last), event_points]] = 1.0

    rows = Rows()
    inputs = [inputs_of(problem, j) for j in range(n)]
    inf = np.inf

    def sources(t: int, v: int) -> list[int]:
        found = [compute[t, problem.producer[v]], page_in[t, v], keep[t - 1, v] if t > 0 else -1]
        return [int(column) for column in found if column >= 0]

    for t in range(last + 1):
        for j in range(n):
            if compute[t, j] < 0:
                continue
            for v in inputs[j]:
                if takes_ram[v]:
                    available = sources(t, v)
                    rows.add([*available, int(compute[t, j])], [1.0] * len(available) + [-1.0], 0.0, inf)
        for v in range(m):
            if page_in[t, v] >= 0:
                rows.add([int(page_out[v]), int(page_in[t, v])], [1.0, -1.0], 0.0, inf)
                users = problem.use_node[problem.use_start[v] : problem.use_start[v + 1]]
                if just_in_time and not (t < last and event_points[t] in users):
                    readers = [int(column) for column in compute[t, users] if column >= 0]
                    rows.add([*readers, int(page_in[t, v])], [1.0] * len(readers) + [-1.0], 0.0, inf)
            if t < last and keep[t, v] >= 0:
                available = sources(t, v)
                rows.add([*available, int(keep[t, v])], [1.0] * len(available) + [-1.0], 0.0, inf)
    for t in range(last):
        node = int(event_points[t])
        for v in inputs[node]:
            if takes_ram[v]:
                lower[keep[t, v]] = 1.0
        kept = np.nonzero(beside[t] & (keep[t] >= 0))[0]
        sizes = problem.size[kept] / problem.budget
        rows.add(keep[t, kept].tolist(), sizes.tolist(), -inf, spare_bytes[t] / problem.budget)
    for j in range(n):
        if earliest[j] < latest[j]:
            window = [int(column) for column in compute[earliest[j] : latest[j] + 1, j]]
            rows.add(window, [1.0] * len(window), 1.0, inf if problem.recomputable[j] else 1.0)
        elif compute[earliest[j], j] >= 0:
            lower[compute[earliest[j], j]] = 1.0
    _add_deadline_rows(problem, compute, page_in, page_out, rows)
    meaning = Columns(event_points, compute, page_in, keep, page_out, _interval_ends(problem, earliest, latest, last))
    integer = np.ones(columns, dtype=np.bool_)
    model = LinearModel.of(cost, -store_all_j * scale, lower, upper, integer, rows)
    return Relaxation(model, meaning, scale)


def _interval_ends(problem: Problem, earliest: Ints, latest: Ints, event_points: int) -> Ints:
    """(event points, m): the stage by whose end v must be in RAM again after event point t; -1: no certain use."""
    interval_end = np.full((event_points, len(problem.size)), -1, dtype=np.int64)
    for v in range(len(problem.size)):
        for j in problem.use_node[problem.use_start[v] : problem.use_start[v + 1]]:
            before = interval_end[: earliest[j], v]
            before[(before < 0) | (before > latest[j])] = latest[j]
    return interval_end


def _numbered(wanted: Flags, first: int) -> tuple[Ints, int]:
    """Column numbers from ``first`` on where ``wanted``, -1 elsewhere; and the next free number."""
    numbers = np.full(wanted.shape, -1, dtype=np.int64)
    count = int(wanted.sum())
    numbers[wanted] = np.arange(first, first + count)
    return numbers, first + count


def _add_deadline_rows(problem: Problem, compute: Ints, page_in: Ints, page_out: Ints, rows: Rows) -> None:
    """Without DMA all times add up; with it, CPU and bus each have to be done by the deadline."""
    if not np.isfinite(problem.deadline):
        return
    pages = [*_times(page_in, problem.in_time), *_times(page_out, problem.out_time)]
    clocks = [_times(compute, problem.node_time) + pages]
    if problem.dma:
        cpu, bus = (_times(compute, problem.node_time * used) for used in (problem.uses_cpu, problem.uses_bus))
        clocks = [cpu, bus + pages]
    for terms in clocks:
        if terms:
            rows.add([c for c, _ in terms], [s / problem.deadline for _, s in terms], -np.inf, 1.0 + 1e-9)


def _times(numbers: Ints, times: Floats) -> list[tuple[int, float]]:
    """Columns that take time, and their seconds; ``times`` has those of each node or value."""
    spread = np.broadcast_to(times, numbers.shape)
    return [(int(c), float(s)) for c, s in zip(numbers[numbers >= 0], spread[numbers >= 0], strict=True) if s > 0]


def events_of(problem: Problem, relaxation: Relaxation, x: Floats) -> Ints:
    """The relaxation's solution as events (see `evaluation`), stage by stage. They need not be a schedule."""
    columns = relaxation.columns
    chosen = np.append(x > 0.5, False)
    n = len(problem.node_time)
    events: list[int] = []
    for t in range(len(columns.compute)):
        waiting = set(np.nonzero(chosen[columns.page_in[t]])[0].tolist())
        for j in np.nonzero(chosen[columns.compute[t]])[0].tolist():
            inputs = set(inputs_of(problem, j).tolist())
            events += [n + v for v in sorted(waiting & inputs)]
            waiting -= inputs
            events.append(j)
        events += [n + v for v in sorted(waiting)]
    return np.array(events, dtype=np.int64)
