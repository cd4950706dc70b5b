# SPDX-License-Identifier: Apache-2.0
"""What Algorithm 1 of the POET paper knows of a problem, and what a solution of it says: nodes in stages.

The paper knows one value a node, so a node stands for all of its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, dearest_page_j, energy_unit_j
from poet_planner.solve.milp.linear_model import SCALE
from poet_planner.solve.milp.solvers import SolverStatus
from poet_planner.solve.options import NoScheduleError, Refused

RELATIVE_GAP = 1e-6


class Solution(NamedTuple):
    """What is computed and paged in, by stage and node (n, n); the most RAM of all, as a share of the budget."""

    computed: Flags
    fetched: Flags
    most_ram: float


class Answer(NamedTuple):
    """How a solver ended, its best solution or None, and its lower bound: joules, or seconds if they were asked."""

    status: SolverStatus
    solution: Solution | None
    bound: float


@dataclass(frozen=True)
class Nodes:
    """Nodes as the paper knows them."""

    size: Ints  # (n,) bytes
    pageable: Flags  # (n,) whether all of its values that have bytes can be paged
    # in_j, out_j, in_s, out_s: (n,) joules and seconds of paging all of them.
    in_j: Floats
    out_j: Floats
    in_s: Floats
    out_s: Floats
    # tail, head: (e,) the edges: ``head`` reads ``tail``; sorted by tail, then by head.
    tail: Ints
    head: Ints
    unit_j: float  # what the model counts energies in

    @property
    def coefficients(self) -> int:
        """How many the model has that has no deadline."""
        n, edges = len(self.size), len(self.tail)
        rank = 1 + np.arange(edges) - np.searchsorted(self.tail, self.tail)
        in_stages = int((n - self.head).sum())
        frees = in_stages + n * (n + 1) // 2
        later_frees = frees - edges - n  # those with a stage behind theirs
        later_users = int((rank * (n - self.head)).sum())
        stages, later_stages = n * (n + 1) // 2, n * (n - 1) // 2
        paging = 4 * stages + 4 * later_stages if self.pageable.any() else 0
        freeing = 4 * frees + 3 * later_frees + 3 * later_users
        return 3 * in_stages + 6 * later_stages + paging + freeing + 2 * n + stages + later_frees


def nodes_of(problem: Problem) -> Nodes:
    """The nodes of a problem."""
    n = len(problem.node_time)

    def total(of_values: Ints | Floats | Flags) -> Floats:
        return np.bincount(problem.producer, weights=of_values, minlength=n).astype(np.float64)

    held = problem.size > 0
    pageable = (total(held) > 0) & (total(held & ~problem.pageable) == 0)
    reader = np.repeat(np.arange(n), np.diff(problem.input_start))
    tail, head = np.unique([problem.producer[problem.input_value], reader], axis=1)
    return Nodes(
        total(problem.size).astype(np.int64),
        pageable,
        np.where(pageable, total(problem.in_energy), 0.0),
        np.where(pageable, total(problem.out_energy), 0.0),
        total(problem.in_time),
        total(problem.out_time),
        tail,
        head,
        energy_unit_j(float(problem.node_energy.sum()), dearest_page_j(problem)) / SCALE,
    )


def refuse_too_many(nodes: Nodes, most: int, name: str) -> None:
    """Refuse a model of too many coefficients, before it is stated."""
    if nodes.coefficients > most:
        raise NoScheduleError(
            f"{name}: {nodes.coefficients:,} coefficients, and {most:,} is the most; use another method",
            Refused.NOT_RUN,
        )
