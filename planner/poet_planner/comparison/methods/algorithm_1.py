# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 of the POET paper (ICML 2022) as printed but for its deadline, in arrays: a block for each of its lines.

Its memory accounting U is that of Checkmate (Jain et al. 2020, equations 2 and 3), as the paper says. Without paging it
is Checkmate's MILP; with no column whole, its LP. The printed deadline leaves page transfers out; here they count.
`algorithm_1_pyomo` states the same in Pyomo, some fifty times as slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.comparison.methods.stages import RELATIVE_GAP, Answer, Nodes, Solution, nodes_of, refuse_too_many
from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.milp.linear_model import SCALE, Entries, LinearModel, RowBlocks
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.time_budget import TimeBudget

MOST_COEFFICIENTS = 10_000_000
KEPT = ("R", "S")  # computed; in RAM before the stage
PAGED = ("A", "I", "O")  # on the card before the stage; paged in; paged out


@dataclass(frozen=True)
class Stages:
    """The model, and where in it each variable is: stage t has the nodes 0..t, so its columns are triangular."""

    model: LinearModel
    nodes: int
    # The first column of each variable, by name; ``U`` is the RAM after each compute, in shares of the budget.
    first: dict[str, int]
    unit_j: float  # what it counts energies in

    def solved(self, solver: Solver, budget: TimeBudget) -> Answer:
        """What a solver finds."""
        result = solver.solve_arrays(self.model, budget, SCALE * RELATIVE_GAP)
        bound = result.bound * self.unit_j
        if not result.solutions:
            return Answer(result.status, None, bound)
        point = result.solutions[-1]
        fetched = self.of("I", point) if "I" in self.first else np.zeros((self.nodes, self.nodes))
        most_ram = float(self.of("U", point).max())
        return Answer(result.status, Solution(self.of("R", point) > 0.5, fetched > 0.5, most_ram), bound)

    def of(self, name: str, point: Floats) -> Floats:
        """A variable in a solution, by stage and node. (n, n)"""
        square = np.zeros((self.nodes, self.nodes))
        stage, node = np.tril_indices(self.nodes)
        square[stage, node] = point[self.first[name] :][: len(stage)]
        return square


def stated(problem: Problem, name: str = "Algorithm 1", whole: bool = True) -> Stages:
    """Algorithm 1 for a problem.

    ``name`` is the method's, in messages. Unless ``whole``, no column has to be whole: this is the LP relaxation.

    Raises
    ------
    UserError
        If it has more coefficients than a solver should be given.
    """
    nodes = nodes_of(problem)
    refuse_too_many(nodes, MOST_COEFFICIENTS, name)
    return _Statement(problem, nodes).made(whole)


class _Statement:
    """Columns and rows. Arrays ``t`` and ``i`` are stages and nodes; ``f``, ``k`` a column FREE and the node of it."""

    def __init__(self, problem: Problem, nodes: Nodes) -> None:
        self._problem = problem
        self._nodes = nodes
        self._n = n = len(nodes.size)
        self._pages = bool(nodes.pageable.any())
        self._t, self._i = np.tril_indices(n)
        names = (*KEPT, *(PAGED if self._pages else ()), "U")
        self._first = {name: number * len(self._t) for number, name in enumerate(names)}
        # Frees are pairs: i leaves after k has run, where k reads i or is i; in each stage from k on.
        self._freed = np.concatenate([nodes.tail, np.arange(n)])
        self._after = np.concatenate([nodes.head, np.arange(n)])
        by_k = np.lexsort((self._freed, self._after))
        self._freed, self._after = self._freed[by_k], self._after[by_k]
        self._first_free = len(names) * len(self._t)
        free_columns = int((n - self._after).sum())
        self._first_stage_s = self._first_free + free_columns
        self._columns = self._first_stage_s + (n if np.isfinite(problem.deadline) else 0)
        self._rows = RowBlocks()

    def made(self, whole: bool) -> Stages:
        cost, lower, upper, integer = self._bounds()
        self._keep()
        if self._pages:
            self._page()
        self._free()
        self._count_ram()
        if np.isfinite(self._problem.deadline):
            self._keep_deadline()
        model = self._rows.model(cost, lower, upper, integer & whole)
        return Stages(model, self._n, self._first, self._nodes.unit_j)

    def _at(self, name: str, t: Ints, i: Ints) -> Ints:
        return self._first[name] + t * (t + 1) // 2 + i

    def _add(self, lower: float, upper: float, *terms: tuple[Ints, Floats | float]) -> None:
        """Rows with an entry of each term."""
        rows = np.arange(len(terms[0][0]))
        self._rows.extend(len(rows), [(rows, *term) for term in terms], lower, upper)

    def _bounds(self) -> tuple[Floats, Floats, Floats, Flags]:
        """Cost, lower and upper bound, and whether it is whole, of each column.

        FREE is whole by its rows, and A may be: the optimum is the same with fewer whole columns.
        """
        problem, nodes, t, i = self._problem, self._nodes, self._t, self._i
        cost, lower, upper = np.zeros(self._columns), np.zeros(self._columns), np.ones(self._columns)
        integer = np.zeros(self._columns, dtype=np.bool_)
        upper[self._first_stage_s :] = np.inf
        for name in ("R", "S", "I", "O"):
            if name in self._first:
                integer[self._at(name, t, i)] = True
        cost[self._at("R", t, i)] = problem.node_energy[i] / nodes.unit_j
        lower[self._at("R", np.arange(self._n), np.arange(self._n))] = 1
        upper[self._at("R", t, i)[(i < t) & ~problem.recomputable[i]]] = 0
        # Before the stage in which it is first computed, a node is nowhere.
        upper[self._at("S", t, i)[i == t]] = 0
        if self._pages:
            upper[self._at("A", t, i)[i == t]] = 0
            for name, joules in (("I", nodes.in_j), ("O", nodes.out_j)):
                cost[self._at(name, t, i)] = joules[i] / nodes.unit_j
                upper[self._at(name, t, i)[~nodes.pageable[i]]] = 0
        return cost, lower, upper, integer

    def _keep(self) -> None:
        """What a compute reads is in RAM, or computed in the stage; what is kept was there in the stage before."""
        n, nodes = self._n, self._nodes
        edge = np.repeat(np.arange(len(nodes.head)), n - nodes.head)
        t = _from_each(nodes.head, n)
        i, j = nodes.tail[edge], nodes.head[edge]
        self._add(0, np.inf, (self._at("R", t, i), 1), (self._at("S", t, i), 1), (self._at("R", t, j), -1))
        t, i = self._but_last()
        there = [(self._at("R", t, i), 1.0), (self._at("S", t, i), 1.0)]
        fetched = [(self._at("I", t, i), 1.0)] if self._pages else []
        self._add(0, np.inf, *there, *fetched, (self._at("S", t + 1, i), -1.0))

    def _page(self) -> None:
        """What is paged in is on the card, what is paged out in RAM; what is on the card was there, or paged out."""
        t, i = self._but_last()
        self._add(0, np.inf, (self._at("A", t, i), 1), (self._at("O", t, i), 1), (self._at("A", t + 1, i), -1))
        t, i = self._t, self._i
        self._add(0, np.inf, (self._at("A", t, i), 1), (self._at("I", t, i), -1))
        self._add(0, np.inf, (self._at("S", t, i), 1), (self._at("O", t, i), -1))

    def _free(self) -> None:
        """Checkmate's equation 3, linear: i leaves after k in stage t iff k runs, i is not kept, no later user runs."""
        n, nodes = self._n, self._nodes
        pair = np.repeat(np.arange(len(self._after)), n - self._after)
        t, f = _from_each(self._after, n), self._first_free + np.arange(len(pair))
        i, k = self._freed[pair], self._after[pair]
        runs = self._at("R", t, k)
        self._add(-np.inf, 0, (f, 1), (runs, -1))
        has_next = np.flatnonzero(t + 1 < n)
        kept = self._at("S", t[has_next] + 1, i[has_next])
        self._add(-np.inf, 1, (f[has_next], 1), (kept, 1))
        first_user, users = np.searchsorted(nodes.tail, i), np.bincount(nodes.tail, minlength=n)[i]
        of = np.repeat(np.arange(len(f)), users)
        user = nodes.head[first_user[of] + _each_upto(users)]
        later = (user > k[of]) & (user <= t[of])
        of, user = of[later], user[later]
        runs_later = self._at("R", t[of], user)
        self._add(-np.inf, 1, (f[of], 1), (runs_later, 1))
        rows = np.arange(len(f))
        entries: list[Entries] = [(rows, f, 1), (rows, runs, -1), (has_next, kept, 1), (of, runs_later, 1)]
        self._rows.extend(len(f), entries, 0, np.inf)

    def _count_ram(self) -> None:
        """U: after the first compute of a stage all that is kept and this; then what was there, less what left."""
        n, share = self._n, self._nodes.size / self._problem.budget
        stages, first = np.arange(n), np.zeros(n, dtype=np.int64)
        entries: list[Entries] = [
            (stages, self._at("U", stages, first), 1),
            (stages, self._at("R", stages, first), -share[0]),
            (self._t, self._at("S", self._t, self._i), -share[self._i]),
        ]
        self._rows.extend(n, entries, 0, 0)
        behind = self._i < self._t
        t, k = self._t[behind], self._i[behind]
        pair = np.repeat(np.arange(len(self._after)), n - self._after)
        stage, f = _from_each(self._after, n), self._first_free + np.arange(len(pair))
        inner = stage > self._after[pair]
        # Row t (t - 1) / 2 + k is that of stage t after node k.
        freed = (stage * (stage - 1) // 2 + self._after[pair])[inner], f[inner], share[self._freed[pair]][inner]
        rows = np.arange(len(t))
        entries = [
            (rows, self._at("U", t, k + 1), 1),
            (rows, self._at("U", t, k), -1),
            (rows, self._at("R", t, k + 1), -share[k + 1]),
            freed,
        ]
        self._rows.extend(len(rows), entries, 0, 0)

    def _keep_deadline(self) -> None:
        """A stage takes all its times; with DMA its computes, or its transfers if they take longer."""
        problem, nodes, t, i = self._problem, self._nodes, self._t, self._i
        lasts = self._first_stage_s + np.arange(self._n)
        computes = (t, self._at("R", t, i), -problem.node_time[i] / problem.deadline)
        transfers: list[Entries] = [
            (t, self._at(name, t, i), -seconds[i] / problem.deadline)
            for name, seconds in (("I", nodes.in_s), ("O", nodes.out_s))
            if self._pages
        ]

        def lasts_at_least(*entries: Entries) -> None:
            self._rows.extend(self._n, [(np.arange(self._n), lasts, 1), *entries], 0, np.inf)

        if problem.dma:
            cpu, bus = problem.uses_cpu[i], problem.uses_bus[i]
            lasts_at_least((t[cpu], computes[1][cpu], computes[2][cpu]))
            lasts_at_least((t[bus], computes[1][bus], computes[2][bus]), *transfers)
        else:
            lasts_at_least(computes, *transfers)
        self._rows.extend(1, [(np.zeros(self._n, dtype=np.int64), lasts, 1)], -np.inf, 1)

    def _but_last(self) -> tuple[Ints, Ints]:
        """Every node of every stage but the last."""
        earlier = self._t < self._n - 1
        return self._t[earlier], self._i[earlier]


def _from_each(first: Ints, end: int) -> Ints:
    """The numbers from each of ``first`` on, up to ``end``, side by side."""
    return np.repeat(first, end - first) + _each_upto(end - first)


def _each_upto(counts: Ints) -> Ints:
    """0, 1, … below each of ``counts``, side by side."""
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return numbers
