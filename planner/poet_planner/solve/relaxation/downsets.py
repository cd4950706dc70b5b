# SPDX-License-Identifier: Apache-2.0
"""Lower bounds for graphs that branch: the RAM at the moment when the last node of a downset is first computed.

A *downset* is a set of nodes that contains all their ancestors. One of its nodes, the *last* one, is first computed
after all the others. Which one, the schedule decides; it has no descendant in the downset. At that moment the rest of
the downset has been computed, and no descendant of the last node has. What nodes on the one side make for nodes on the
other is in RAM then, or is restored later at some cost.

See docs/optimiser/relaxation.md, "Downsets", for the model and the proofs.
"""

from __future__ import annotations

import math

import numpy as np

from poet_planner.solve.instance import (
    Flags,
    Problem,
    energy_unit_j,
    inputs_of,
    outside_working_set,
    working_set_bytes,
)
from poet_planner.solve.milp.failure import put_down
from poet_planner.solve.milp.highs import Lp, LpStatus
from poet_planner.solve.milp.linear_model import DEAREST, LP_SAFETY, SCALE, LinearModel, Rows
from poet_planner.solve.relaxation.model import about_entries, seconds_to_state_lp
from poet_planner.solve.statistics import Context
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import ancestors, producers

STEP = 0.05  # another downset is looked for that proves so much more: fraction of the overhead


def search_downsets(problem: Problem, overhead_j: float, budget: TimeBudget, context: Context | None = None) -> float:
    """A lower bound on the energy of every schedule, in joules: the best that any downset proves, up to a step.

    It begins with all nodes. The node that proves least as the last one is taken out, again and again. No order of
    doing so misses the best downset: while all of it is left, a node that is in it proves at least as much as in it.
    ``overhead_j`` is the energy of the best schedule above E0. It takes no part in the proof.
    """
    store_all_j = float(problem.node_energy.sum())
    stating_s = seconds_to_state_lp(about_entries(problem, event_points=1))
    if budget.left() < stating_s:
        return store_all_j
    budget.spend(stating_s)
    context = context or Context()
    step_j = STEP * overhead_j
    proven_j = 0.0
    with put_down(context.statistics):
        moment = LastNode(problem, overhead_j)
        downset = np.ones(len(problem.node_time), dtype=np.bool_)
        # For each node that may be the last one: the energy that is restored at least. Where it is not up to date it
        # was found for a larger downset, or not yet (infinite), and is too large if anything.
        restored_j = {node: math.inf for node in range(len(downset)) if moment.is_last(node, downset)}
        outdated = set(restored_j)
        while restored_j and proven_j + step_j <= overhead_j and not budget.expired:
            least = min(restored_j, key=lambda node: restored_j[node])
            if restored_j[least] <= proven_j + step_j:
                del restored_j[least]
                downset[least] = False
                for node in producers(problem, least).tolist():
                    if moment.is_last(node, downset):
                        restored_j[node] = math.inf
                outdated = set(restored_j)
            elif outdated:
                node = min(outdated, key=lambda node: (restored_j[node] < math.inf, restored_j[node], node))
                restored_j[node] = moment.restored_j(downset, node, budget)
                outdated.remove(node)
            else:
                proven_j = restored_j[least]
    return store_all_j + proven_j


class LastNode:
    """What must be restored if a node is the last one of a downset: an LP, of which each case fixes some variables.

    Its unit is such that up to ``overhead_j`` above E0 the numbers are small.

    Its columns are, in this order: whether each node is computed before the moment or at it (n), whether after it (n),
    whether each value is paged in after it (m), and whether it is in RAM at the moment (m).
    """

    def __init__(self, problem: Problem, overhead_j: float) -> None:
        n, m = len(problem.node_time), len(problem.size)
        self._problem = problem
        self._above = ancestors(problem)
        self._unit_bytes = max(problem.budget, 1)
        self._need = working_set_bytes(problem)
        self._used = np.repeat(np.arange(m), np.diff(problem.use_start))
        self._before, self._after = slice(0, n), slice(n, 2 * n)
        self._paged, self._kept = slice(2 * n, 2 * n + m), slice(2 * n + m, 2 * n + 2 * m)
        store_all_j = float(problem.node_energy.sum())
        self._scale = SCALE / energy_unit_j(store_all_j, store_all_j + overhead_j)
        model = self._model()
        self._upper = model.upper
        self._lp = Lp(model)
        self._capacity_row = len(model.row_upper) - 1

    def is_last(self, node: int, downset: Flags) -> bool:
        """Whether ``node`` is in the downset and none of its descendants is."""
        return bool(downset[node]) and not (self._above[node] & downset).any()

    def restored_j(self, downset: Flags, node: int, budget: TimeBudget) -> float:
        """Energy above E0 of every schedule in which ``node`` is the last of ``downset``, at least, in joules.

        Infinite if there is no such schedule; 0 if the time is up.
        """
        earlier, later = downset.copy(), self._above[node].copy()
        earlier[node], later[node] = False, True
        if self._fits(earlier, node) or self._fits(~later, node):
            return 0.0
        return self._least_j(earlier, node, budget)

    def _fits(self, earlier: Flags, node: int) -> bool:
        """Whether all that is needed later fits in RAM beside ``node``, if just the nodes ``earlier`` come before."""
        problem = self._problem
        needed_later = np.zeros(len(problem.size), dtype=np.bool_)
        needed_later[self._used[~earlier[problem.use_node]]] = True
        beside = outside_working_set(problem, node) & earlier[problem.producer] & needed_later
        return int(problem.size[beside].sum()) <= problem.budget - int(self._need[node])

    def _least_j(self, earlier: Flags, node: int, budget: TimeBudget) -> float:
        problem = self._problem
        lower, upper = np.zeros(len(self._upper)), self._upper.copy()
        lower[self._before][earlier] = 1.0
        lower[self._before][node] = 1.0
        upper[self._before][self._above[node]] = 0.0
        beside = outside_working_set(problem, node)
        lower[self._kept][~beside] = 1.0
        upper[self._kept][beside & (problem.size > problem.budget - self._need[node])] = 0.0
        room = (problem.budget - int(problem.workspace[node])) / self._unit_bytes
        self._lp.set_bounds(lower, upper)
        self._lp.set_row_bounds(self._capacity_row, -np.inf, room)
        status = self._lp.solve(budget)
        if status is LpStatus.INFEASIBLE:
            return math.inf
        if status is LpStatus.OPEN:
            return 0.0
        return max(0.0, self._lp.optimum - LP_SAFETY) / self._scale

    def _model(self) -> LinearModel:
        """The LP without what a case fixes; the capacity row last."""
        problem = self._problem
        n, m = len(problem.node_time), len(problem.size)
        before, after = np.arange(n), np.arange(n, 2 * n)
        paged, kept = 2 * n + np.arange(m), 2 * n + m + np.arange(m)
        store_all_j = float(problem.node_energy.sum())
        cost = np.concatenate([problem.node_energy, problem.node_energy, problem.in_energy + problem.out_energy])
        # What costs less than it does proves less, and no more.
        cost = np.append(np.minimum(cost * self._scale, DEAREST), np.zeros(m))
        upper = np.ones(len(cost))
        upper[paged[~problem.pageable]] = 0.0
        rows = Rows()
        for j in range(n):
            rows.add([before[j], after[j]], [1.0, 1.0], 1.0, np.inf if problem.recomputable[j] else 1.0)
            for v in inputs_of(problem, j):
                made = problem.producer[v]
                rows.add([before[made], before[j]], [1.0, -1.0], 0.0, np.inf)
                rows.add([kept[v], after[made], paged[v], after[j]], [1.0, 1.0, 1.0, -1.0], 0.0, np.inf)
        for v in range(m):
            rows.add([before[problem.producer[v]], kept[v]], [1.0, -1.0], 0.0, np.inf)
        rows.add(kept.tolist(), (problem.size / self._unit_bytes).tolist(), -np.inf, 1.0)
        relaxed = np.zeros(len(cost), dtype=np.bool_)
        return LinearModel.of(cost, -store_all_j * self._scale, np.zeros(len(cost)), upper, relaxed, rows)
