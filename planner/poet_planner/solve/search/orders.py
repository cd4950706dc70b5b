# SPDX-License-Identifier: Apache-2.0
"""Topological orders in which the store-all schedule needs little RAM (docs/optimiser/search.md, "Starts").

What is recomputed or paged costs; another order costs nothing. Where values live long whatever is recomputed, as the
gradients of a PyTorch step do, the order decides how many of them meet the activations.

The orders are made by list scheduling: of the nodes that are ready, the next is the one that adds the least to what is
in RAM. Each pass weighs the nodes by keys of its own (random keys: Bean 1994). The first passes draw all keys, the
others change a few of the best.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Float, Function, Int, Ref, floats, ints
from poet_planner.solve.instance import Ints, Problem, graph_size
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

# A pass, and what each node, value and edge adds: reference seconds.
PASS_S = 2e-5
PASS_S_PER_SIZE = 2e-7

PASSES = 6000  # orders that are made at most
LEAST_PASSES = 32  # orders that are made however little time there is
MOST_NODES = 1_500_000  # orders times nodes, at most
RANDOM_PASSES = 400  # of the orders, the first: all keys are drawn anew
NOISE = (0.0, 1.0)  # standard deviation of the logarithm of those keys
LARGE = 1000  # nodes; in a larger graph a node may go ahead by no more than
AHEAD = (0.3, 1.0)  # such a power of the nodes: what is ready early there is long of no use
TRANSIENT = (0.0, 1.0)  # weight of the bytes that a node takes while it is computed
TRIED_PASSES = 64  # after as many, orders with too little less overflow than the own are given up
CHANGED = (0.02, 0.1)  # keys that another pass changes: fraction

_list_schedule = Function("list_schedule", Ref, Ref, Float, Int, Ref, Ref, Ref, Ref)


def frugal_order(problem: Problem, seed: int, budget: TimeBudget = UNLIMITED, at_most: float = 1.0) -> Ints:
    """The order of least overflow that is found; the graph's own if none has less, or not as little. (n,)

    The overflow are the bytes above the RAM, summed over the nodes: what recomputing or paging has to make up for. If
    the random passes find nothing better than the graph's own order, as on chains, no others follow. ``at_most`` is a
    fraction of the own order's overflow; if the first passes do not come near it, no others follow either.
    """
    n = len(problem.node_time)
    random = np.random.default_rng(seed)
    work = new_workspace(problem, np.ones(1, dtype=np.uint64), events=n)
    scratch = [np.zeros(count, dtype=np.int64) for count in (len(problem.size), n, n)]
    best: Ints = np.arange(n, dtype=np.int64)
    own = least = evaluate(problem, best, n, work).overflow
    climbed, keys, transient, ahead = np.inf, np.ones(n), 0.0, n
    for number in range(min(PASSES, max(1, MOST_NODES // n))):
        if least == 0 or (number >= LEAST_PASSES and budget.expired):
            break
        if number == TRIED_PASSES and least > (at_most + 1) / 2 * own:
            break
        if number < RANDOM_PASSES:
            tried = np.exp(random.uniform(*NOISE) * random.standard_normal(n))
            weight = random.uniform(*TRANSIENT)
            window = int(n ** random.uniform(*AHEAD)) if n > LARGE else n
        elif least == own:
            break
        else:
            changed = random.random(n) < random.uniform(*CHANGED)
            tried, weight, window = keys * np.exp(changed * random.standard_normal(n)), transient, ahead
        order = np.zeros(n, dtype=np.int64)
        _list_schedule(problem, floats(tried), weight, window, ints(order), *map(ints, scratch))
        overflow = evaluate(problem, order, n, work).overflow
        budget.spend(PASS_S + PASS_S_PER_SIZE * graph_size(problem))
        if overflow <= climbed:
            climbed, keys, transient, ahead = overflow, tried, weight, window
        if overflow < least:
            best, least = order, overflow
    return best if least <= at_most * own else np.arange(n, dtype=np.int64)
