# SPDX-License-Identifier: Apache-2.0
"""One-point crossover: one schedule up to the first compute of a node, and another one from there on.

See docs/optimiser/search.md, "A run". Crossover comes from genetic algorithms (Holland 1975).
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Float, Function, Int, Ref, Struct, struct
from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.evaluation import Workspace


@struct
class Parent(Struct):
    """A schedule as events (see `evaluation`), and the place of the first compute of each node. (n,)"""

    events: Ints
    places: Ints


_cheapest_offspring = Function("cheapest_offspring", Ref, Ref, Ref, Float, Float, Ref, returns=Int)


def cross(problem: Problem, one: Ints, other: Ints, per_byte: float, per_second: float, work: Workspace) -> Ints | None:
    """The cheapest offspring of two schedules; None if each offspring costs as much as a parent.

    Each node gives one offspring. Events that nothing needs are dropped from it. It may break the limits. ``one`` and
    ``other`` are the parents, as events (see `evaluation`). The penalties ``per_byte`` over the budget and
    ``per_second`` over the deadline are in joules; ``work`` is scratch.
    """
    nodes = len(problem.node_time)
    length: int = _cheapest_offspring(problem, _parent(one, nodes), _parent(other, nodes), per_byte, per_second, work)
    return None if length < 0 else work.kept[:length].copy()


def _parent(events: Ints, nodes: int) -> Parent:
    computed = np.flatnonzero(events < nodes)
    places = np.zeros(nodes, dtype=np.int64)
    places[events[computed[::-1]]] = computed[::-1]
    return Parent(events, places)
