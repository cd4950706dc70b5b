# SPDX-License-Identifier: Apache-2.0
"""One-point crossover: one schedule up to the first compute of a node, and another one from there on.

See docs/optimiser/search.md, "A run". Crossover comes from genetic algorithms (Holland 1975).
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.jit import compiled
from poet_planner.solve.search.evaluation import Evaluation, Workspace, evaluate
from poet_planner.solve.search.incumbent import same


def cross(problem: Problem, one: Ints, other: Ints, per_byte: float, per_second: float, work: Workspace) -> Ints | None:
    """The cheapest offspring of two schedules; None if each offspring costs as much as a parent.

    Each node gives one offspring. Events that nothing needs are dropped from it. It may break the limits.

    Parameters
    ----------
    one, other : Ints
        The parents, as events (see `evaluation`).
    per_byte, per_second : float
        Penalties for a byte over the budget and a second over the deadline, in joules.
    work : Workspace
        Scratch.
    """
    nodes = len(problem.node_time)
    length = _cheapest(problem, one, other, _places(one, nodes), _places(other, nodes), per_byte, per_second, work)
    return None if length < 0 else work.kept[:length].copy()


def _places(events: Ints, nodes: int) -> Ints:
    """Place of the first compute of each node. (n,)"""
    computed = np.flatnonzero(events < nodes)
    places = np.zeros(nodes, dtype=np.int64)
    places[events[computed[::-1]]] = computed[::-1]
    return places


@compiled
def _cheapest(
    problem: Problem,
    one: Ints,
    other: Ints,
    one_places: Ints,
    other_places: Ints,
    per_byte: float,
    per_second: float,
    work: Workspace,
) -> int:
    """Leave the cheapest offspring in ``work.kept``; returns its length, or -1 if there is none."""
    one_energy = evaluate(problem, one, len(one), work).energy
    other_energy = evaluate(problem, other, len(other), work).energy
    best_cost = np.inf
    best = -1
    for j in range(problem.node_time.size):
        result = _evaluate_offspring(problem, one, one_places[j] + 1, other, other_places[j] + 1, work)
        if result.length < 0:
            continue
        new = not same(result.energy, one_energy) and not same(result.energy, other_energy)
        late = max(0.0, result.time - problem.deadline)
        cost = result.energy + per_byte * result.overflow + per_second * late
        if new and cost < best_cost:
            best_cost = cost
            best = j
    if best < 0:
        return -1
    return _evaluate_offspring(problem, one, one_places[best] + 1, other, other_places[best] + 1, work).length


@compiled
def _evaluate_offspring(problem: Problem, one: Ints, stop: int, other: Ints, start: int, work: Workspace) -> Evaluation:
    """Evaluate ``one`` before ``stop``, followed by ``other`` from ``start`` on."""
    length = min(work.candidate.size, stop + len(other) - start)
    for k in range(stop):
        work.candidate[k] = one[k]
    for k in range(length - stop):
        work.candidate[stop + k] = other[start + k]
    return evaluate(problem, work.candidate, length, work)
