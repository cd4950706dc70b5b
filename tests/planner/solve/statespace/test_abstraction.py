# SPDX-License-Identifier: Apache-2.0
"""Coarser views: what they leave out and what they must not."""

from __future__ import annotations

import itertools

import numpy as np
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem, node_need
from poet_planner.solve.params import DEFAULTS
from poet_planner.solve.statespace.abstraction import View, blind_view, views
from poet_planner.solve.statespace.aggregation import taken_together

from tests.support.graphs.random_graphs import training_like_graph


def problem_of(seed: int) -> Problem:
    graph = training_like_graph(seed)
    return build_problem(graph, store_all_schedule(graph).peak_bytes, None)


def ladder(problem: Problem) -> list[View]:
    return views(problem, taken_together(problem, float(problem.node_energy.max())))


def test_the_last_view_is_the_problem_itself() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        last = ladder(problem)[-1].problem
        for name in ("size", "workspace", "input_value", "input_start", "in_energy", "out_energy"):
            assert (getattr(last, name) == getattr(problem, name)).all(), (seed, name)
        assert (last.pageable == problem.pageable).all(), seed


def test_every_view_counts_what_a_node_takes_by_itself() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        for view in [blind_view(problem), *ladder(problem)]:
            assert (node_need(view.problem) == node_need(problem)).all(), seed


def test_a_finer_view_looks_at_more_and_at_smaller_values() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        steps = views(problem, np.arange(len(problem.size)))
        assert (steps[0].problem.size > 0).sum() <= DEFAULTS.state_space.first_values, seed
        for coarse, fine in itertools.pairwise(steps):
            seen, more = coarse.problem.size > 0, fine.problem.size > 0
            assert not (seen & ~more).any(), seed
            if (more & ~seen).any():
                assert problem.size[more & ~seen].max() <= problem.size[seen].min(), seed


def test_a_view_pays_for_page_outs_but_for_the_coarsest() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        steps = ladder(problem)
        if problem.pageable.any():
            assert not steps[0].paid.any(), seed
            assert (steps[-1].paid == (problem.pageable & (problem.out_energy > 0))).all(), seed
