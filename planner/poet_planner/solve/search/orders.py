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

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import allocating
from poet_planner.solve.params import DEFAULTS, OrderParams
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget


def frugal_order(
    problem: Problem, seed: int, budget: TimeBudget = UNLIMITED, params: OrderParams = DEFAULTS.orders
) -> Ints:
    """The order of least overflow that is found; the graph's own if none has less. (n,)

    The overflow are the bytes above the RAM, summed over the nodes: what recomputing or paging has to make up for. If
    the random passes find nothing better than the graph's own order, as on chains, no others follow.
    """
    n = len(problem.node_time)
    random = np.random.default_rng(seed)
    work = new_workspace(problem, np.ones(1, dtype=np.uint64), events=n)
    best: Ints = np.arange(n, dtype=np.int64)
    own = least = evaluate(problem, best, n, work).overflow
    climbed, keys, transient = np.inf, np.ones(n), 0.0
    for number in range(min(params.passes, max(1, params.nodes // n))):
        if least == 0 or (number >= params.least_passes and budget.expired):
            break
        if number < params.random_passes:
            tried = np.exp(random.uniform(*params.noise) * random.standard_normal(n))
            weight = random.uniform(*params.transient)
        elif least == own:
            break
        else:
            changed = random.random(n) < random.uniform(*params.changed)
            tried, weight = keys * np.exp(changed * random.standard_normal(n)), transient
        order = _order(problem, tried, weight)
        overflow = evaluate(problem, order, n, work).overflow
        if overflow <= climbed:
            climbed, keys, transient = overflow, tried, weight
        if overflow < least:
            best, least = order, overflow
    return best


@allocating
def _order(problem: Problem, keys: Floats, transient: float) -> Ints:
    """A topological order of the nodes. Of the ready ones, the next has the lowest score. (n,)

    The score is by how much the bytes in RAM grow, times the node's key, and ``transient`` times the bytes that it
    takes while it is computed.
    """
    n = problem.node_time.size
    readers = problem.use_start[1:] - problem.use_start[:-1]
    lacking = np.zeros(n, dtype=np.int64)
    ready = np.zeros(n, dtype=np.int64)
    order = np.zeros(n, dtype=np.int64)
    count = 0
    for j in range(n):
        lacking[j] = problem.input_start[j + 1] - problem.input_start[j]
        if lacking[j] == 0:
            ready[count] = j
            count += 1
    for place in range(n):
        least = np.inf
        chosen = 0
        for k in range(count):
            j = ready[k]
            made = 0
            over = 0
            for v in range(problem.output_start[j], problem.output_start[j + 1]):
                made += problem.size[v]
                over += problem.size[v] * (readers[v] == 0)
            for i in range(problem.input_start[j], problem.input_start[j + 1]):
                v = problem.input_value[i]
                over += problem.size[v] * (readers[v] == 1)
            score = (made - over) * keys[j] + transient * (made + problem.workspace[j])
            if score < least:
                least = score
                chosen = k
        j = ready[chosen]
        count -= 1
        ready[chosen] = ready[count]
        order[place] = j
        for i in range(problem.input_start[j], problem.input_start[j + 1]):
            readers[problem.input_value[i]] -= 1
        for v in range(problem.output_start[j], problem.output_start[j + 1]):
            for k in range(problem.use_start[v], problem.use_start[v + 1]):
                user = problem.use_node[k]
                lacking[user] -= 1
                if lacking[user] == 0:
                    ready[count] = user
                    count += 1
    return order
