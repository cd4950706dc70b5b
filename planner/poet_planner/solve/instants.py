"""At which first computes the relaxation limits the RAM: few at first, then those where its best schedule overflows.

A handful of instants out of more than a hundred usually gives the bound of them all, in a model that a MILP solver
settles within seconds.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.evaluation import evaluate, new_workspace
from poet_planner.solve.problem import Flags, Ints, Problem, inputs_of, node_need

# Share of the largest need that a node must have for its first compute to be an instant from the start.
FIRST_SHARE = 0.6


def longest_path(problem: Problem) -> Ints:
    """Nodes of a longest path of the graph; among equals one through much memory."""
    n = len(problem.node_time)
    need = node_need(problem).astype(float)
    need /= max(need.sum(), 1.0)
    length = np.zeros(n)
    before = np.full(n, -1, dtype=np.int64)
    for j in range(n):
        for u in producers(problem, j):
            if length[u] > length[j]:
                length[j], before[j] = length[u], u
        length[j] += 1 + need[j]
    path = [int(length.argmax())] if n else []
    while path and before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return np.array(path[::-1], dtype=np.int64)


def producers(problem: Problem, node: int) -> Ints:
    """Nodes whose values ``node`` needs."""
    found: Ints = np.unique(problem.producer[inputs_of(problem, node)])
    return found


def ancestors(problem: Problem) -> Flags:
    """(n, n): [a, j] is true where a must be computed before j."""
    n = len(problem.node_time)
    above = np.zeros((n, n), dtype=np.bool_)
    for j in range(n):
        for u in producers(problem, j):
            above[:, j] |= above[:, u]
            above[u, j] = True
    return above


def first_instants(problem: Problem, path: Ints) -> Flags:
    """The nodes of ``path`` that need much RAM by themselves. (n,)"""
    need = node_need(problem)
    chosen: Flags = np.zeros(len(need), dtype=np.bool_)
    chosen[path] = need[path] >= FIRST_SHARE * need[path].max(initial=0)
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
    along = np.concatenate([[0.0], excess[path], [0.0]])
    here = along[1:-1]
    peaks: Ints = path[(here > 0) & (here >= along[:-2]) & (here > along[2:])]
    return peaks
