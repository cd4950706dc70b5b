# SPDX-License-Identifier: Apache-2.0
"""What a step may cost in a form: a short search in each tells which to plan."""

from __future__ import annotations

import math

from poet_profiles.graph import Graph

SEARCH_S = 0.3  # effort in each form: of so many seconds on a usual core


def found_j(graph: Graph, budget_bytes: int) -> float:
    """Energy of the schedule that a short search finds, in joules; infinite if it finds none."""
    from poet_planner.solve.instance import build_problem
    from poet_planner.solve.search.annealer import moves_per_second
    from poet_planner.solve.search.portfolio import Portfolio

    problem = build_problem(graph, budget_bytes, None)
    portfolio = Portfolio(problem, seed=0)
    portfolio.run(int(SEARCH_S * moves_per_second(problem)))
    return portfolio.incumbent.energy if portfolio.incumbent else math.inf
