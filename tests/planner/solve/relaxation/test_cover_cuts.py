# SPDX-License-Identifier: Apache-2.0
"""Cover and restoration cuts cut off the point they are made for, and no bound rises above the least energy by them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from poet_planner.solve.instance import Floats
from poet_planner.solve.relaxation import cover_cuts
from poet_planner.solve.relaxation.cover_cuts import Cuts, separate
from poet_planner.solve.relaxation.cutting_planes import LpRelaxation
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.statistics import Context, Parts
from poet_planner.solve.time_budget import UNLIMITED
from poet_planner.solve.topology import longest_path

from tests.support.graphs.solved_problems import solved_problem, store_all_j


def left_hand_sides(cuts: Cuts, x: Floats) -> list[float]:
    rows = zip(cuts.starts[:-1], cuts.starts[1:], strict=True)
    return [float(cuts.coefficients[begin:end] @ x[cuts.columns[begin:end]]) for begin, end in rows]


def test_the_point_violates_each_cut_and_room_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    found = 0
    for seed in range(60):
        problem, _ = solved_problem(seed)
        relaxed = build_relaxation(problem, longest_path(problem), np.inf)
        rng = np.random.default_rng(seed)
        x = rng.random(len(relaxed.model.cost)) * (rng.random(len(relaxed.model.cost)) < 0.3)
        cuts = separate(problem, relaxed.columns, x)
        assert all(side < 1.0 for side in left_hand_sides(cuts, x)), seed
        found += len(cuts.starts) - 1
        with monkeypatch.context() as little:
            little.setattr(cover_cuts, "COEFFICIENTS", 0)
            again = separate(problem, relaxed.columns, x)
        assert all((one == other).all() for one, other in zip(cuts, again, strict=True)), seed
    assert found > 100


def test_the_bound_rises_by_the_cuts_and_never_above_the_least_energy() -> None:
    alone = Context(parts=Parts(rounding_cuts=False))
    risen = 0
    for seed in range(80):
        problem, least_j = solved_problem(seed)
        if math.isinf(least_j):
            continue
        relaxed = build_relaxation(problem, longest_path(problem), np.inf)
        most = partial(float, relaxed.scale * 100 * store_all_j(problem))
        lp = LpRelaxation(problem, relaxed, alone)
        assert lp.solve(most, UNLIMITED)
        before = lp.bound
        lp.add_cuts(most, UNLIMITED)
        assert lp.bound <= relaxed.scale * (least_j - store_all_j(problem)) + 1e-3, seed
        risen += lp.bound > before + 1.0
    assert risen > 10
