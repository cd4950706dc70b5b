# SPDX-License-Identifier: Apache-2.0
"""Paths, producers and ancestors in a graph."""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem, inputs_of, working_set_bytes


def longest_path(problem: Problem) -> Ints:
    """Nodes of a longest path of the graph. Of several, one whose working sets add up to the most bytes."""
    n = len(problem.node_time)
    tie_break = working_set_bytes(problem).astype(float)
    tie_break /= max(tie_break.sum(), 1.0)
    length = np.zeros(n)
    before = np.full(n, -1, dtype=np.int64)
    for j in range(n):
        for u in producers(problem, j):
            if length[u] > length[j]:
                length[j], before[j] = length[u], u
        length[j] += 1 + tie_break[j]
    path = [int(length.argmax())] if n else []
    while path and before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return np.array(path[::-1], dtype=np.int64)


def producers(problem: Problem, node: int) -> Ints:
    """The nodes that produce the inputs of ``node``."""
    return np.array(sorted({*problem.producer[inputs_of(problem, node)].tolist()}), dtype=np.int64)


def ancestors(problem: Problem) -> Flags:
    """(n, n): [a, j] is true if a is an ancestor of j, so that it must be computed before j."""
    n = len(problem.node_time)
    above = np.zeros((n, n), dtype=np.bool_)
    for j in range(n):
        for u in producers(problem, j):
            above[:, j] |= above[:, u]
            above[u, j] = True
    return above
