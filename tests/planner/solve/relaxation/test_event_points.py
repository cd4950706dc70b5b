# SPDX-License-Identifier: Apache-2.0
"""Where the relaxation limits the RAM, and where it misses that it should, against schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Ints, Problem, build_problem, working_set_bytes
from poet_planner.solve.relaxation.event_points import bottleneck_event_points, minimal_event_points, most_overflowing
from poet_planner.solve.relaxation.model import Relaxation, build_relaxation
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.topology import longest_path

from tests.support.graphs.chains import chain
from tests.support.graphs.random_graphs import random_graph, training_like_graph
from tests.support.graphs.relaxed_points import as_point, has_repetitions_in_a_stage, schedules


def relaxation_at(problem: Problem, event_points: Ints) -> Relaxation:
    return build_relaxation(problem, event_points, np.inf)


def test_a_schedule_misses_no_ram() -> None:
    looked = 0
    for seed in range(60):
        graph = random_graph(seed) if seed % 3 == 0 else training_like_graph(seed)
        problem = build_problem(graph, int(store_all_schedule(graph).peak_bytes * (0.55 + 0.1 * (seed % 4))), None)
        path = longest_path(problem)
        relaxed = relaxation_at(problem, path[seed % 2 :: 2 + seed % 3])
        for events in schedules(problem, 3):
            point = as_point(problem, relaxed, events)
            # What is made twice in one stage may be elsewhere in between.
            if not has_repetitions_in_a_stage(relaxed, events):
                assert most_overflowing(problem, path, relaxed.columns, point) is None, seed
                looked += 1
    assert looked > 50


def test_plain_training_misses_the_ram_where_it_needs_most() -> None:
    rng = np.random.default_rng(0)
    for depth in range(4, 20):
        problem = build_problem(chain(depth), 0, None)
        size = 4 * rng.integers(1, 9, len(problem.size))
        problem = replace(problem, size=size, budget=int(size.sum()))
        path = longest_path(problem)
        assert len(path) == len(problem.node_time)
        work = new_workspace(problem, np.ones(1, dtype=np.uint64))
        evaluate(problem, path, len(path), work)
        memory = dict(zip(path.tolist(), work.memory[: len(path)].tolist(), strict=True))
        relaxed = relaxation_at(problem, path[np.sort(rng.choice(2 * depth, 1 + depth % 3, replace=False))])
        point = as_point(problem, relaxed, path)
        between = {node: ram for node, ram in memory.items() if node not in relaxed.columns.event_points}
        most = max(between.values())
        assert most_overflowing(replace(problem, budget=most), path, relaxed.columns, point) is None
        node = most_overflowing(replace(problem, budget=most - 4), path, relaxed.columns, point)
        assert node is not None and between[node] == most


def test_of_neighbours_that_need_much_the_minimal_event_points_are_those_that_need_most() -> None:
    problem = build_problem(chain(4), 0, None)
    path = longest_path(problem)
    problem = replace(problem, size=np.array([4, 4, 40, 4, 4, 4, 4, 4]))
    few, first = minimal_event_points(problem, path), bottleneck_event_points(problem, path)
    need = working_set_bytes(problem)
    assert first.sum() > few.sum() > 0 and not (few & ~first).any()
    assert need[few].max() == need.max()
    chosen = np.nonzero(np.isin(path, np.nonzero(few)[0]))[0]
    assert (np.diff(chosen) > 1).all()
