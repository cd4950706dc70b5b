# SPDX-License-Identifier: Apache-2.0
"""Rounding the RAM to whole values rules out no set of values that fits."""

from __future__ import annotations

import numpy as np
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem, inputs_of, working_set_bytes
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.relaxation.rounding_cuts import RoundingCuts
from poet_planner.solve.topology import longest_path

from tests.support.graphs.random_graphs import random_graph, training_like_graph


def test_every_set_that_fits_keeps_the_cuts() -> None:
    cuts = binding = 0
    for seed in range(60):
        graph = random_graph(seed, 9) if seed % 2 else training_like_graph(seed)
        problem = build_problem(graph, int(store_all_schedule(graph).peak_bytes * 0.8), None)
        relaxed = build_relaxation(problem, longest_path(problem), np.inf)
        keep = relaxed.columns.keep
        rng = np.random.default_rng(seed)
        rows = RoundingCuts(problem, relaxed.columns).separate(np.ones(len(relaxed.model.cost)))
        for r, most in enumerate(rows.upper):
            entries = slice(rows.starts[r], rows.starts[r + 1])
            t = int(np.nonzero(np.isin(keep, rows.columns[entries][0]).any(axis=1))[0][0])
            node = int(relaxed.columns.event_points[t])
            spare = problem.budget - int(working_set_bytes(problem)[node])
            taken = [int(np.nonzero(keep[t] == column)[0][0]) for column in rows.columns[entries]]
            assert not set(taken) & set(inputs_of(problem, node).tolist())
            cuts += 1
            reached = 0.0
            for _ in range(60):
                chosen = rng.random(len(taken)) < rng.random()
                if problem.size[taken][chosen].sum() <= spare:
                    reached = max(reached, float(np.array(rows.coefficients[entries])[chosen].sum()))
            assert reached <= most
            binding += reached == most
    assert cuts > 50
    assert binding > 25
