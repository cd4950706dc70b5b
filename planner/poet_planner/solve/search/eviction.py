# SPDX-License-Identifier: Apache-2.0
"""Schedules made in one pass: compute one node after the other, and evict where the RAM is full.

Dynamic tensor rematerialization (Kirisame et al., ICLR 2021), with the future known: what is evicted is cheap to bring
back, large, and not needed for long; what a node lacks is brought back, and what that lacks before. Schedules that
bring back values within values, which annealing is long in finding, turn up at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.params import DEFAULTS, EvictionParams
from poet_planner.solve.search.evaluation import capacity
from poet_planner.solve.search.incumbent import Incumbent, measured
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, interruptible

# Further ahead than any place in a schedule.
NEVER = 2**62


def by_eviction(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    passes: int,
    budget: TimeBudget = UNLIMITED,
    params: EvictionParams = DEFAULTS.eviction,
) -> Iterator[Incumbent | None]:
    """What each pass of eviction makes, in time or not; None where it found no way, or the budget expired."""
    for _ in range(passes):
        events = evicting(problem, order, random, budget, params)
        yield None if events is None else measured(problem, events)


def evicting(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    budget: TimeBudget = UNLIMITED,
    params: EvictionParams = DEFAULTS.eviction,
) -> Ints | None:
    """Events (see `evaluation`) of a schedule within the budget, whatever its time; None if the pass found no way.

    Parameters
    ----------
    order : (n,)
        A topological order of the nodes: that of their first computes.
    random : numpy.random.Generator
        Every pass weighs values differently; some find a way where others do not.
    """
    patience, greed, noise = (random.uniform(*between) for between in (params.patience, params.greed, params.noise))
    worth = np.exp(noise * random.standard_normal(len(problem.size))) / np.maximum(problem.size, 1) ** greed
    events = np.zeros(capacity(problem), dtype=np.int64)
    length = interruptible(partial(_pass, problem, order, np.argsort(order), worth, patience, events), budget)
    return None if length < 0 else events[:length]


@allocating
def _pass(p, order, position, worth, patience, events, stop):  # type: ignore[no-untyped-def]
    """Writes ``events``; their number, or -1 where it finds no way or ``stop`` is set.

    ``position`` is each node's in ``order``.
    """
    n, m = p.node_time.size, p.size.size
    here = np.zeros(m, dtype=np.bool_)
    pinned = np.zeros(m, dtype=np.int64)
    paged = np.zeros(m, dtype=np.bool_)
    computed = np.zeros(n, dtype=np.bool_)
    needed = np.zeros(m, dtype=np.int64)
    cost = np.zeros(m)
    stack = np.zeros(n, dtype=np.int64)
    gathered = np.zeros(n, dtype=np.int64)
    used = 0
    length = 0
    for now in range(n):
        stack[0] = order[now]
        gathered[0] = 0
        depth = 1
        while depth > 0:
            if stop[0]:
                return -1
            j = stack[depth - 1]
            first, last = p.input_start[j], p.input_start[j + 1]
            if gathered[depth - 1] < last - first:
                v = p.input_value[last - 1 - gathered[depth - 1]]
                if here[v] or p.size[v] == 0:
                    pinned[v] += 1
                    gathered[depth - 1] += 1
                    continue
                _prospects(p, position, here, paged, computed, needed, cost)
                if not p.pageable[v] or cost[v] < _page_energy(p, paged, v):
                    if not p.recomputable[p.producer[v]]:
                        return -1
                    stack[depth] = p.producer[v]
                    gathered[depth] = 0
                    depth += 1
                    continue
                wanted = p.size[v]
                event = n + v
            else:
                wanted = p.workspace[j]
                for v in range(p.own[j], p.own[j + 1]):
                    pinned[v] += 1
                    if not here[v]:
                        wanted += p.size[v]
                event = j
            while used + wanted > p.budget:
                _prospects(p, position, here, paged, computed, needed, cost)
                v = _cheapest(p, here, pinned, needed, cost, worth, patience, now)
                if v < 0:
                    return -1
                here[v] = False
                used -= p.size[v]
            if length == events.size:
                return -1
            events[length] = event
            length += 1
            if event >= n:
                v = event - n
                here[v] = True
                paged[v] = True
                used += p.size[v]
                continue
            computed[j] = True
            for v in range(p.own[j], p.own[j + 1]):
                pinned[v] -= 1
                if not here[v]:
                    here[v] = True
                    used += p.size[v]
            for k in range(first, last):
                pinned[p.input_value[k]] -= 1
            depth -= 1
    return length


@compiled
def _page_energy(p, paged, v):  # type: ignore[no-untyped-def]
    return p.in_energy[v] + (0.0 if paged[v] else p.out_energy[v])


@compiled
def _prospects(p, position, here, paged, computed, needed, cost):  # type: ignore[no-untyped-def]
    """When each value is needed next, be it for another that is to be brought back; and what bringing it back costs."""
    for v in range(p.size.size - 1, -1, -1):
        needed[v] = NEVER
        for k in range(p.use_start[v], p.use_start[v + 1]):
            user = p.use_node[k]
            if not computed[user]:
                needed[v] = min(needed[v], position[user])
                continue
            for u in range(p.own[user], p.own[user + 1]):
                if not here[u]:
                    needed[v] = min(needed[v], needed[u])
    for j in range(p.node_time.size):
        energy = p.node_energy[j] if p.recomputable[j] else np.inf
        for k in range(p.input_start[j], p.input_start[j + 1]):
            if not here[p.input_value[k]]:
                energy += cost[p.input_value[k]]
        for v in range(p.own[j], p.own[j + 1]):
            cost[v] = min(energy, _page_energy(p, paged, v)) if p.pageable[v] else energy


@compiled
def _cheapest(p, here, pinned, needed, cost, worth, patience, now):  # type: ignore[no-untyped-def]
    """The value to evict; -1 if there is none."""
    best = -1
    least = np.inf
    for v in range(p.size.size):
        if not here[v] or pinned[v] > 0 or p.size[v] == 0:
            continue
        if needed[v] == NEVER:
            return v
        score = (cost[v] + 1e-12) * worth[v] / (needed[v] - now + 1.0) ** patience
        if score < least:
            least = score
            best = v
    return best
