# SPDX-License-Identifier: Apache-2.0
"""Schedules made by eviction, in one pass over the nodes (docs/optimiser/search.md, "Starts").

This is dynamic tensor rematerialization (Kirisame et al., ICLR 2021), but with the future known. If the RAM is full,
the pass evicts the value that is cheapest to restore, relative to its size and to the time until its next use. A
missing input is restored first, and so are the inputs that it lacks. Annealing needs long to find such nested restores.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.params import DEFAULTS, EvictionParams
from poet_planner.solve.search.evaluation import capacity
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, interruptible

NEVER = 2**62  # later than any place in a schedule


def by_eviction(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    passes: int,
    budget: TimeBudget = UNLIMITED,
    params: EvictionParams = DEFAULTS.eviction,
) -> Iterator[Incumbent | None]:
    """The schedule of each pass, late or not; None if the pass failed or the budget expired."""
    for _ in range(passes):
        events = evict_once(problem, order, random, budget, params)
        yield None if events is None else evaluated(problem, events)


def evict_once(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    budget: TimeBudget = UNLIMITED,
    params: EvictionParams = DEFAULTS.eviction,
) -> Ints | None:
    """Events (see `evaluation`) of a schedule within the budget, whatever its time; None if the pass failed.

    Parameters
    ----------
    order : (n,)
        A topological order of the nodes: that of their first computes.
    random : numpy.random.Generator
        Each pass draws other weights. Some passes find a schedule where others do not.
    """
    patience, greed, noise = (random.uniform(*between) for between in (params.patience, params.greed, params.noise))
    worth = np.exp(noise * random.standard_normal(len(problem.size))) / np.maximum(problem.size, 1) ** greed
    events = np.zeros(capacity(problem), dtype=np.int64)
    length = interruptible(partial(_pass, problem, order, np.argsort(order), worth, patience, events), budget)
    return None if length < 0 else events[:length]


@allocating
def _pass(
    problem: Problem, order: Ints, position: Ints, worth: Floats, patience: float, events: Ints, stop: Flags
) -> int:
    """Write ``events``; returns their number, or -1 if the pass fails or ``stop`` is set.

    Parameters
    ----------
    position : (n,)
        Position of each node in ``order``.
    worth : (m,)
        Factor of the score of each value.
    patience : float
        Exponent of the time until the next use.
    stop : (1,)
        Whether to end early.
    """
    n, m = problem.node_time.size, problem.size.size
    in_ram = np.zeros(m, dtype=np.bool_)
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
            first, last = problem.input_start[j], problem.input_start[j + 1]
            if gathered[depth - 1] < last - first:
                v = problem.input_value[last - 1 - gathered[depth - 1]]
                if in_ram[v] or problem.size[v] == 0:
                    pinned[v] += 1
                    gathered[depth - 1] += 1
                    continue
                _find_prospects(problem, position, in_ram, paged, computed, needed, cost)
                if not problem.pageable[v] or cost[v] < _page_energy(problem, paged, v):
                    if not problem.recomputable[problem.producer[v]]:
                        return -1
                    stack[depth] = problem.producer[v]
                    gathered[depth] = 0
                    depth += 1
                    continue
                wanted = problem.size[v]
                event = n + v
            else:
                wanted = problem.workspace[j]
                for v in range(problem.output_start[j], problem.output_start[j + 1]):
                    pinned[v] += 1
                    if not in_ram[v]:
                        wanted += problem.size[v]
                event = j
            while used + wanted > problem.budget:
                _find_prospects(problem, position, in_ram, paged, computed, needed, cost)
                v = _cheapest(problem, in_ram, pinned, needed, cost, worth, patience, now)
                if v < 0:
                    return -1
                in_ram[v] = False
                used -= problem.size[v]
            if length == events.size:
                return -1
            events[length] = event
            length += 1
            if event >= n:
                v = event - n
                in_ram[v] = True
                paged[v] = True
                used += problem.size[v]
                continue
            computed[j] = True
            for v in range(problem.output_start[j], problem.output_start[j + 1]):
                pinned[v] -= 1
                if not in_ram[v]:
                    in_ram[v] = True
                    used += problem.size[v]
            for k in range(first, last):
                v = problem.input_value[k]
                pinned[v] -= 1
                if problem.taken[v]:
                    in_ram[v] = False
                    used -= problem.size[v]
            depth -= 1
    return length


@compiled
def _page_energy(problem: Problem, paged: Flags, v: int) -> float:
    return problem.in_energy[v] + (0.0 if paged[v] else problem.out_energy[v])


@compiled
def _find_prospects(
    problem: Problem, position: Ints, in_ram: Flags, paged: Flags, computed: Flags, needed: Ints, cost: Floats
) -> None:
    """For each value, the position of its next use and the energy of restoring it. Uses within restores count."""
    for v in range(problem.size.size - 1, -1, -1):
        needed[v] = NEVER
        for k in range(problem.use_start[v], problem.use_start[v + 1]):
            user = problem.use_node[k]
            if not computed[user]:
                needed[v] = min(needed[v], position[user])
                continue
            for u in range(problem.output_start[user], problem.output_start[user + 1]):
                if not in_ram[u]:
                    needed[v] = min(needed[v], needed[u])
    for j in range(problem.node_time.size):
        energy = problem.node_energy[j] if problem.recomputable[j] else np.inf
        for k in range(problem.input_start[j], problem.input_start[j + 1]):
            if not in_ram[problem.input_value[k]]:
                energy += cost[problem.input_value[k]]
        for v in range(problem.output_start[j], problem.output_start[j + 1]):
            cost[v] = min(energy, _page_energy(problem, paged, v)) if problem.pageable[v] else energy


@compiled
def _cheapest(
    problem: Problem, in_ram: Flags, pinned: Ints, needed: Ints, cost: Floats, worth: Floats, patience: float, now: int
) -> int:
    """The value with the lowest score, to be evicted; -1 if there is none."""
    best = -1
    least = np.inf
    for v in range(problem.size.size):
        if not in_ram[v] or pinned[v] > 0 or problem.size[v] == 0:
            continue
        if needed[v] == NEVER:
            return v
        score = (cost[v] + 1e-12) * worth[v] / (needed[v] - now + 1.0) ** patience
        if score < least:
            least = score
            best = v
    return best
