# SPDX-License-Identifier: Apache-2.0
"""Schedules made by eviction, in one pass over the nodes (docs/optimiser/search.md, "Starts").

This is dynamic tensor rematerialization (Kirisame et al., ICLR 2021), but with the future known. If the RAM is full,
the pass evicts the value that is cheapest to restore, relative to its size and to the time until its next use. A
missing input is restored first, and so are the inputs that it lacks. Annealing needs long to find such nested restores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from poet_planner.solve.engine import Function, Int, Ref, Struct, ints, struct
from poet_planner.solve.instance import Flags, Floats, Ints, Problem, graph_size, zeros
from poet_planner.solve.search.evaluation import capacity
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, in_steps

STEP_S_PER_SIZE = 4e-9  # looking at all values once, for each node, value and edge: reference seconds

# A value's score is cost / (time until use) ** patience / bytes ** greed, times exp(noise). Each pass draws its own.
PATIENCE = (0.5, 4.0)
GREED = (0.0, 0.6)
NOISE = (0.0, 0.5)  # standard deviation


@struct
class Eviction(Struct):
    """One pass."""

    order: Ints  # (n,) the nodes in the order of their first computes
    position: Ints  # (n,) position of each node in ``order``
    worth: Floats  # (m,) factor of the score of each value
    patience: float  # exponent of the time until the next use
    events: Ints  # the schedule
    # in_ram, pinned, paged: (m,) whether each value is in RAM, how many computes on the stack hold it there, and
    # whether it was ever paged in.
    in_ram: Flags
    pinned: Ints
    paged: Flags
    computed: Flags  # (n,)
    # needed, cost: (m,) position of the next use of each value, and joules of restoring it.
    needed: Ints
    cost: Floats
    # stack, gathered: (n,) the nodes that are to be computed, each for the one below, and how many inputs of each are
    # pinned.
    stack: Ints
    gathered: Ints


_eviction_pass = Function("eviction_pass", Ref, Ref, Ref, returns=Int)


def by_eviction(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    passes: int,
    budget: TimeBudget = UNLIMITED,
) -> Iterator[Incumbent | None]:
    """The schedule of each pass, late or not; None if the pass failed or the budget expired."""
    for _ in range(passes):
        events = evict_once(problem, order, random, budget)
        yield None if events is None else evaluated(problem, events)


def evict_once(
    problem: Problem,
    order: Ints,
    random: np.random.Generator,
    budget: TimeBudget = UNLIMITED,
) -> Ints | None:
    """Events (see `evaluation`) of a schedule within the budget, whatever its time; None if the pass failed.

    ``order`` is that of the first computes. Each pass draws other weights: some find a schedule where others do not.
    """
    n, m = len(problem.node_time), len(problem.size)
    patience, greed, noise = (random.uniform(*between) for between in (PATIENCE, GREED, NOISE))
    worth = np.exp(noise * random.standard_normal(m)) / np.maximum(problem.size, 1) ** greed
    eviction = Eviction(
        order=order,
        position=np.argsort(order),
        worth=worth,
        patience=patience,
        events=zeros(capacity(problem)),
        in_ram=np.zeros(m, dtype=np.bool_),
        pinned=zeros(m),
        paged=np.zeros(m, dtype=np.bool_),
        computed=np.zeros(n, dtype=np.bool_),
        needed=zeros(m),
        cost=np.zeros(m),
        stack=zeros(n),
        gathered=zeros(n),
    )
    length: int = in_steps(
        lambda tally: _eviction_pass(problem, eviction, ints(tally)), budget, STEP_S_PER_SIZE * graph_size(problem)
    )
    return None if length < 0 else eviction.events[:length]
