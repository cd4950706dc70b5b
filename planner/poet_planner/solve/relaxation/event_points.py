# SPDX-License-Identifier: Apache-2.0
"""The event points of a relaxation: few at first, then those at which its solutions overflow the RAM.

Most event points are not needed, so they are added where they are missing, like lazy constraints. A handful out of
more than a hundred usually gives the same bound, in a model that a MILP solver solves within seconds.

See docs/optimiser/relaxation.md, "Refinement".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, outside_working_set, working_set_bytes
from poet_planner.solve.relaxation.columns import Columns
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.topology import ancestors

FIRST_NEED = 0.6  # nodes on the path that need as much are event points first: fraction of the largest need


def bottleneck_event_points(problem: Problem, path: Ints) -> Flags:
    """The bottleneck nodes of ``path``: those with large working sets. (n,)"""
    need = working_set_bytes(problem)
    chosen: Flags = np.zeros(len(need), dtype=np.bool_)
    chosen[path] = need[path] >= FIRST_NEED * need[path].max(initial=0)
    return chosen


def minimal_event_points(problem: Problem, path: Ints) -> Flags:
    """One node of each run of neighbouring bottleneck nodes on ``path``: the one with the largest working set. (n,)"""
    chosen: Flags = np.zeros(len(problem.node_time), dtype=np.bool_)
    bottlenecks = bottleneck_event_points(problem, path)
    chosen[_peaks(path, np.where(bottlenecks, working_set_bytes(problem), 0.0))] = True
    return chosen


def overflowing(problem: Problem, path: Ints, events: Ints) -> Ints:
    """Nodes of ``path`` at whose first compute ``events`` overflow the RAM: of each run of neighbours the worst."""
    everywhere: Flags = np.zeros(len(problem.node_time), dtype=np.bool_)
    everywhere[path] = True
    limited = replace(problem, is_event_point=everywhere)
    work = new_workspace(limited, np.ones(1, dtype=np.uint64), events=len(events))
    result = evaluate(limited, events, len(events), work)
    excess = np.zeros(len(problem.node_time))
    for k in range(max(result.length, 0)):
        event = work.kept[k]
        if event < len(excess):
            excess[event] = max(excess[event], work.memory[k] - problem.budget)
    return _peaks(path, excess)


def most_overflowing(problem: Problem, path: Ints, columns: Columns, point: Floats) -> int | None:
    """The node of ``path`` at whose first compute a point of the relaxation overflows the RAM most; None: nowhere.

    What the point holds there is estimated. A value is needed if it is kept at the next event point, or if the stage
    surely reads it. It counts as in RAM, less the fraction that this stage makes again or pages in. A value that the
    stage makes for the first time before that compute counts in full.
    """
    n, last = len(problem.node_time), len(columns.event_points)
    padded = np.append(point, 0.0)
    upto = ancestors(problem) | np.eye(n, dtype=np.bool_)
    user = np.repeat(np.arange(n), np.diff(problem.input_start))
    stage = np.searchsorted(np.nonzero(np.isin(path, columns.event_points))[0], np.arange(len(path)))
    excess = working_set_bytes(problem) - float(problem.budget)
    for node, t in zip(path, stage, strict=True):
        made = upto[problem.producer, node]
        first_here = made if t == 0 else made & ~upto[problem.producer, columns.event_points[t - 1]]
        kept = padded[columns.keep[t]] if t < last else np.zeros(len(problem.size))
        next_users = upto[node] & upto[:, columns.event_points[t]] if t < last else upto[node]
        kept[problem.input_value[next_users[user]]] = 1.0
        again = padded[columns.page_in[t]] + padded[columns.compute[t, problem.producer]] - first_here
        excess[node] += np.maximum(kept - again, 0.0) @ np.where(
            outside_working_set(problem, int(node)), problem.size, 0
        )
    between = path[~np.isin(path, columns.event_points)]
    worst = max(between.tolist(), key=lambda node: excess[node], default=None)
    return worst if worst is not None and excess[worst] > 0 else None


def _peaks(path: Ints, excess: Floats) -> Ints:
    """The nodes at which ``excess`` has a positive local maximum along ``path``."""
    along = np.concatenate([[0.0], excess[path], [0.0]])
    here = along[1:-1]
    peaks: Ints = path[(here > 0) & (here >= along[:-2]) & (here > along[2:])]
    return peaks
