# SPDX-License-Identifier: Apache-2.0
"""Abstractions: what they leave out and what they must not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem, working_set_bytes
from poet_planner.solve.statespace import abstraction
from poet_planner.solve.statespace.abstraction import Abstraction, build_hierarchy
from poet_planner.solve.statespace.aggregation import representatives

from tests.support.graphs.random_graphs import random_graph, training_like_graph


def problem_of(seed: int) -> Problem:
    graph = training_like_graph(seed)
    return build_problem(graph, store_all_schedule(graph).peak_bytes, None)


def hierarchy(problem: Problem) -> list[Abstraction]:
    return build_hierarchy(problem, representatives(problem, float(problem.node_energy.max())))


def test_the_last_abstraction_is_the_problem_itself() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        last = hierarchy(problem)[-1].problem
        for name in ("size", "workspace", "input_value", "input_start", "in_energy", "out_energy"):
            assert (getattr(last, name) == getattr(problem, name)).all(), (seed, name)
        assert (last.pageable == problem.pageable).all(), seed


def test_every_abstraction_keeps_the_working_sets() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        for one in hierarchy(problem):
            assert (working_set_bytes(one.problem) == working_set_bytes(problem)).all(), seed


def test_finer_abstractions_add_smaller_values() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        abstractions = build_hierarchy(problem, np.arange(len(problem.size)))
        assert (abstractions[0].problem.size > 0).sum() <= abstraction.FIRST_VALUES, seed
        for coarse, fine in itertools.pairwise(abstractions):
            relevant, more = coarse.problem.size > 0, fine.problem.size > 0
            assert not (relevant & ~more).any(), seed
            if (more & ~relevant).any():
                assert problem.size[more & ~relevant].max() <= problem.size[relevant].min(), seed


def test_coarse_abstractions_are_few_and_fine_ones_many(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = build_problem(random_graph(2, 30), 1000, None)
    counts = []
    for growth in (10.0, 1.01):
        monkeypatch.setattr(abstraction, "GROWTH", growth)
        counts.append(len(build_hierarchy(problem, np.arange(len(problem.size)))))
    assert counts[0] < counts[1]


def test_page_outs_count_in_every_abstraction() -> None:
    for seed in range(20):
        problem = problem_of(seed)
        for one in hierarchy(problem):
            assert (one.counts_page_out == (one.problem.pageable & (one.problem.out_energy > 0))).all(), seed
