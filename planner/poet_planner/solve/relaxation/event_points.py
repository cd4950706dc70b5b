# SPDX-License-Identifier: Apache-2.0
"""At which first computes the relaxation limits the RAM: few at first, then those where it overflows.

A handful of instants out of more than a hundred usually gives the bound of them all, in a model that a MILP solver
settles within seconds.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, node_need, others
from poet_planner.solve.relaxation.columns import Columns
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.topology import ancestors

# Share of the largest need that a node must have for its first compute to be an instant from the start.
FIRST_SHARE = 0.6


def first_instants(problem: Problem, path: Ints) -> Flags:
    """The nodes of ``path`` that need much RAM by themselves. (n,)"""
    need = node_need(problem)
    chosen: Flags = np.zeros(len(need), dtype=np.bool_)
    chosen[path] = need[path] >= FIRST_SHARE * need[path].max(initial=0)
    return chosen


def fewest_instants(problem: Problem, path: Ints) -> Flags:
    """Of the first instants that are neighbours on ``path``, the one that needs most RAM. (n,)"""
    chosen: Flags = np.zeros(len(problem.node_time), dtype=np.bool_)
    chosen[_peaks(path, np.where(first_instants(problem, path), node_need(problem), 0.0))] = True
    return chosen


def overflowing(problem: Problem, path: Ints, events: Ints) -> Ints:
    """Nodes of ``path`` at whose first compute ``events`` overflow the RAM; of neighbours the one that does most."""
    everywhere: Flags = np.zeros(len(problem.node_time), dtype=np.bool_)
    everywhere[path] = True
    limited = problem._replace(instant=everywhere)
    work = new_workspace(limited, np.ones(1, dtype=np.uint64), events=len(events))
    result = evaluate(limited, events, len(events), work)
    excess = np.zeros(len(problem.node_time))
    for k in range(max(result.length, 0)):
        event = work.kept[k]
        if event < len(excess):
            excess[event] = max(excess[event], work.memory[k] - problem.budget)
    return _peaks(path, excess)


def missed(problem: Problem, path: Ints, columns: Columns, point: Floats) -> int | None:
    """The node of ``path`` at whose first compute a point of the relaxation overflows the RAM most, if it does.

    What is kept up to the next instant, or surely needed before, is in RAM but for the share that this stage makes or
    pages in; what it surely makes before that compute for the first time is.
    """
    n, last = len(problem.node_time), len(columns.instants)
    padded = np.append(point, 0.0)
    upto = ancestors(problem) | np.eye(n, dtype=np.bool_)
    user = np.repeat(np.arange(n), np.diff(problem.input_start))
    stage = np.searchsorted(np.nonzero(np.isin(path, columns.instants))[0], np.arange(len(path)))
    excess = node_need(problem) - float(problem.budget)
    for node, t in zip(path, stage, strict=True):
        made = upto[problem.producer, node]
        first_here = made if t == 0 else made & ~upto[problem.producer, columns.instants[t - 1]]
        kept = padded[columns.keep[t]] if t < last else np.zeros(len(problem.size))
        next_users = upto[node] & upto[:, columns.instants[t]] if t < last else upto[node]
        kept[problem.input_value[next_users[user]]] = 1.0
        again = padded[columns.page_in[t]] + padded[columns.compute[t, problem.producer]] - first_here
        excess[node] += np.maximum(kept - again, 0.0) @ np.where(others(problem, int(node)), problem.size, 0)
    between = np.setdiff1d(path, columns.instants)
    worst = max(between.tolist(), key=lambda node: excess[node], default=None)
    return worst if worst is not None and excess[worst] > 0 else None


def _peaks(path: Ints, excess: Floats) -> Ints:
    along = np.concatenate([[0.0], excess[path], [0.0]])
    here = along[1:-1]
    peaks: Ints = path[(here > 0) & (here >= along[:-2]) & (here > along[2:])]
    return peaks
