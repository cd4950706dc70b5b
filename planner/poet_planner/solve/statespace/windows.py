# SPDX-License-Identifier: Apache-2.0
"""Windows between the first computes of nodes on a path: what is paid in them adds up.

Page-outs are shared out over the windows, so that none counts twice; the shares are improved by subgradients. See
docs/optimiser/state_space.md, "Windows", for the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from poet_planner.solve.instance import Floats, Problem
from poet_planner.solve.statespace.abstraction import hierarchy_by_size
from poet_planner.solve.statespace.astar import Stretch, search_hierarchy, without_dear_pages
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import ancestors, longest_path

CUTS = 10  # nodes of the path between which windows are tried
CHOICE_STATES = 0.2  # states of a window while windows are chosen: fraction of those allowed
CHOICE_SHARE = 0.4  # for choosing: fraction of the work left
STEP = 0.7  # shares of page-outs move by this fraction of what would close the gap; by less where that is too far
LEAST_STEP = 0.05


class Windows:
    """What is paid above E0 between first computes of nodes of a path, at least."""

    def __init__(self, problem: Problem, limit: float, most_states: int) -> None:
        self._problem = without_dear_pages(problem, limit)
        self._limit = limit
        self._most_states = most_states
        n = len(problem.node_time)
        path = longest_path(problem)
        # The node before each cut, and all nodes up to it: row c of `before` is of cut c; at last, everything.
        self._at = path[np.unique(np.linspace(0, len(path) - 1, CUTS + 2).astype(int)[1:-1])]
        upto = ancestors(problem).T[self._at]
        upto[np.arange(len(self._at)), self._at] = True
        self.upto = np.vstack((upto, np.ones(n, dtype=np.bool_)))

    def raised(self, budget: TimeBudget) -> Iterator[float]:
        """Better and better bounds, in joules above E0."""
        choosing = budget.share(CHOICE_SHARE)
        cuts, paged = self._chosen(choosing)
        shares = self._first_shares(cuts, paged)
        best, step = 0.0, STEP
        while step > LEAST_STEP and not budget.expired:
            total, slope = 0.0, np.zeros_like(shares)
            for window, (first, last) in enumerate(pairwise(cuts)):
                least, values = self.paid(first, last, shares[window], self._most_states, budget)
                total += least
                slope[window, values] = self._problem.out_energy[values]
            step *= 1.0 if total > best else STEP
            best = max(best, total)
            yield min(best, self._limit)
            if best >= self._limit or not slope.any():
                break
            shares = on_simplex(shares + step * (self._limit - total) / (slope**2).sum() * slope)

    def paid(
        self, first: int, last: int, shares: Floats, most_states: int, budget: TimeBudget
    ) -> tuple[float, list[int]]:
        """What is paid between two cuts at least, before the first if that is -1; what is paged."""
        nodes = self.upto[last]
        if first < 0:
            goal = nodes
        else:
            goal = np.zeros_like(nodes)
            goal[self._at[first]] = True
        problem = replace(self._problem, out_energy=self._problem.out_energy * shares)
        hierarchy = hierarchy_by_size(problem, np.arange(len(problem.size)), nodes)
        found = search_hierarchy(hierarchy, Stretch(nodes, goal), self._limit, most_states, budget)
        return found.bound, [] if found.path is None else sorted(found.path.paged())

    def _chosen(self, budget: TimeBudget) -> tuple[list[int], list[list[int]]]:
        """The cuts, -1 before the first, of the best windows where page-outs count in full; and what these page."""
        in_full, states = np.ones(len(self._problem.size)), int(CHOICE_STATES * self._most_states)
        ends = [*range(-1, len(self.upto))]
        best: dict[int, tuple[float, list[int], list[list[int]]]] = {-1: (0.0, [-1], [])}
        for last in ends[1:]:
            tried = []
            for first in ends[: last + 1]:
                least, values = self.paid(first, last, in_full, states, budget)
                before, cuts, paged = best[first]
                tried.append((before + least, [*cuts, last], [*paged, values]))
            best[last] = max(tried, key=lambda one: one[0])
        return best[ends[-1]][1:]

    def _first_shares(self, cuts: list[int], paged: list[list[int]]) -> Floats:
        """Equal shares for the windows that page a value; else all for that in which it is read last. (windows, m)"""
        problem = self._problem
        shares = np.zeros((len(cuts) - 1, len(problem.size)))
        for window, values in enumerate(paged):
            shares[window, values] = 1.0
        where = np.array([self.upto[last] for last in cuts[1:]]).argmax(axis=0)  # the window of each node
        for v in np.nonzero(~shares.any(axis=0))[0]:
            users = problem.use_node[problem.use_start[v] : problem.use_start[v + 1]]
            shares[where[users].max(initial=0), v] = 1.0
        return shares / shares.sum(axis=0)


def on_simplex(shares: Floats) -> Floats:
    """The nearest of which no entry is negative, and each column adds up to 1."""
    falling = -np.sort(-shares, axis=0)
    beyond = np.cumsum(falling, axis=0) - 1
    count = (falling > beyond / np.arange(1, len(shares) + 1)[:, None]).sum(axis=0)
    return np.maximum(shares - beyond[count - 1, np.arange(shares.shape[1])] / count, 0.0)
