# SPDX-License-Identifier: Apache-2.0
"""Crossover: one schedule up to the first computation of a node, and another from there on."""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.jit import compiled
from poet_planner.solve.search.evaluation import Workspace, evaluate
from poet_planner.solve.search.incumbent import same


def cross(problem: Problem, one: Ints, other: Ints, per_byte: float, per_second: float, work: Workspace) -> Ints | None:
    """Of all children of two schedules (events, see `evaluation`) the cheapest; None if each is as cheap as a parent.

    A child computes what nodes the two disagree on as the parents do together; what nothing needs is dropped. It may be
    over the limits: a byte over the budget costs ``per_byte``, a second over the deadline ``per_second``.
    """
    nodes = len(problem.node_time)
    length = _cheapest(problem, one, other, _places(one, nodes), _places(other, nodes), per_byte, per_second, work)
    return None if length < 0 else work.kept[:length].copy()


def _places(events: Ints, nodes: int) -> Ints:
    """Place of the first computation of each node. (n,)"""
    computed = np.flatnonzero(events < nodes)
    places = np.zeros(nodes, dtype=np.int64)
    places[events[computed[::-1]]] = computed[::-1]
    return places


@compiled
def _cheapest(p, one, other, one_places, other_places, per_byte, per_second, w):  # type: ignore[no-untyped-def]
    """Leaves the child in ``w.kept``; returns its length, or -1 if there is none."""
    one_energy = evaluate(p, one, len(one), w).energy
    other_energy = evaluate(p, other, len(other), w).energy
    best_cost = np.inf
    best = -1
    for j in range(p.node_time.size):
        result = _child(p, one, one_places[j] + 1, other, other_places[j] + 1, w)
        if result.length < 0:
            continue
        new = not same(result.energy, one_energy) and not same(result.energy, other_energy)
        late = max(0.0, result.time - p.deadline)
        cost = result.energy + per_byte * result.overflow + per_second * late
        if new and cost < best_cost:
            best_cost = cost
            best = j
    if best < 0:
        return -1
    return _child(p, one, one_places[best] + 1, other, other_places[best] + 1, w).length


@compiled
def _child(p, one, stop, other, start, w):  # type: ignore[no-untyped-def]
    """Evaluation of ``one`` before ``stop`` and ``other`` from ``start`` on."""
    length = min(w.candidate.size, stop + len(other) - start)
    for k in range(stop):
        w.candidate[k] = one[k]
    for k in range(length - stop):
        w.candidate[stop + k] = other[start + k]
    return evaluate(p, w.candidate, length, w)
