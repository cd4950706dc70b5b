# SPDX-License-Identifier: Apache-2.0
"""The least energy of a tiny graph by exhaustion, where the order-free MILP may be left with a gap."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from poet_planner.solve.instance import Ints, Problem, inputs_of
from poet_planner.solve.time_budget import TimeBudget

MOST_NODES = 8
MOST_VALUES = 14
MOST_LABELS = 150_000

_State = tuple[int, int, int]
# Overhead, time, state, event that led there, label before.
_Label = tuple[float, float, _State, int, "_Label | None"]


def cheapest_events(problem: Problem, budget: TimeBudget) -> Ints | None:
    """Events (see `evaluation`) of a schedule of least energy; None if the graph is not tiny, or it takes too long.

    A shortest path over what is computed, in RAM and on the card (three bit sets). First computes count nothing, since
    every schedule pays for them; of states that cost the same, those come first that have more behind them. With a
    deadline a state keeps every pair of overhead and time of which none is beaten in both. For boards without DMA.
    """
    n, m = len(problem.node_time), len(problem.size)
    if n > MOST_NODES or m > MOST_VALUES or problem.dma:
        return None
    own = [sum(1 << v for v in range(problem.own[j], problem.own[j + 1])) for j in range(n)]
    needs = [sum(1 << int(v) for v in inputs_of(problem, j)) for j in range(n)]
    held = [sum(int(problem.size[v]) for v in range(m) if mask >> v & 1) for mask in range(1 << m)]
    timed = bool(np.isfinite(problem.deadline))
    ticket = itertools.count()
    start: _Label = (0.0, 0.0, (0, 0, 0), -1, None)
    queue: list[tuple[float, int, float, int, _Label]] = [(0.0, 0, 0.0, next(ticket), start)]
    least_time: dict[_State, float] = {}
    labels = 0
    while queue:
        overhead, _, time, _, label = heapq.heappop(queue)
        done, ram, card = state = label[2]
        if done == (1 << n) - 1:
            return _events(label)
        # Labels of a state leave the queue with rising overhead: one is beaten unless it is faster than all before.
        if least_time.get(state, np.inf) <= (time if timed else np.inf) and state in least_time:
            continue
        least_time[state] = time
        labels += 1
        if labels > MOST_LABELS or (labels % 1000 == 0 and budget.expired):
            return None
        after: list[tuple[float, float, _State, int]] = []
        for j in range(n):
            if ram & needs[j] != needs[j] or (done >> j & 1 and not problem.recomputable[j]):
                continue
            # Values that stand in the way of their own making are freed with it.
            kept = ram & ~own[j] | own[j]
            if needs[j] & own[j] == 0 and held[kept] + problem.workspace[j] <= problem.budget:
                costs = (float(problem.node_energy[j]) if done >> j & 1 else 0.0), float(problem.node_time[j])
                after.append((*costs, (done | 1 << j, kept, card), j))
        for v in range(m):
            bit = 1 << v
            if ram & bit:
                after.append((0.0, 0.0, (done, ram & ~bit, card), -1))
            if not problem.pageable[v]:
                continue
            if ram & bit and not card & bit:
                costs = float(problem.out_energy[v]), float(problem.out_time[v])
                after.append((*costs, (done, ram, card | bit), -1))
            if card & bit and not ram & bit and held[ram | bit] <= problem.budget:
                costs = float(problem.in_energy[v]), float(problem.in_time[v])
                after.append((*costs, (done, ram | bit, card), n + v))
        for more, more_time, reached, event in after:
            if time + more_time <= problem.deadline:
                new = (overhead + more, time + more_time, reached, event, label)
                heapq.heappush(queue, (new[0], -reached[0].bit_count(), new[1], next(ticket), new))
    return None


def _events(label: _Label | None) -> Ints:
    events = []
    while label is not None:
        if label[3] >= 0:
            events.append(label[3])
        label = label[4]
    return np.array(events[::-1], dtype=np.int64)
