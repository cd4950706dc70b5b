# SPDX-License-Identifier: Apache-2.0
"""What a stage costs at least, against a search forward through all there is; and its cuts, against schedules."""

from __future__ import annotations

import heapq
import itertools
import random

import numpy as np
import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.cutting_planes import LpRelaxation
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.relaxation.stage_cuts import StageCuts
from poet_planner.solve.relaxation.stage_path import Prices, Stage, cheapest
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget
from poet_planner.solve.topology import longest_path

from tests.support.graphs.random_graphs import random_graph, training_like_graph
from tests.support.graphs.relaxed_points import as_point, schedules


def random_stage(seed: int) -> tuple[Stage, Prices]:
    rng = random.Random(seed)
    own: list[list[int]] = []
    inputs: list[list[int]] = []
    values = 0
    for _ in range(rng.randint(2, 5)):
        inputs.append(rng.sample(range(values), min(values, rng.randint(0, 2))))
        width = 2 if rng.random() < 0.2 else 1
        own.append(list(range(values, values + width)))
        values += width
    size = [rng.choice([0, 4, 8, 12]) if rng.random() < 0.9 else 0 for _ in range(values)]
    base = rng.sample(range(values), rng.randint(0, min(2, values)))
    goal = rng.sample(range(values), rng.randint(1, 2))
    budget = rng.randint(3, 8) * 4
    if sum(size[v] for v in goal) > budget or sum(size[v] for v in base) > budget:
        return random_stage(seed + 10_000)
    wanted = [v for v in range(values) if v not in goal and rng.random() < 0.4]
    free = [v for v in range(values) if v not in base and rng.random() < 0.3]

    def set_of(members: list[int]) -> np.int64:
        return np.int64(sum(1 << v for v in members))

    stage = Stage(
        size=np.array(size, dtype=np.int64),
        in_energy=np.array([rng.choice([1.0, 2.5, np.inf, np.inf]) for _ in range(values)]),
        node_energy=np.array([rng.choice([0.5, 1.0, 3.0]) for _ in own]),
        inputs=np.array([set_of(of) for of in inputs], dtype=np.int64),
        own=np.array([set_of(of) for of in own], dtype=np.int64),
        workspace=np.array([rng.choice([0, 0, 4]) for _ in own], dtype=np.int64),
        base=set_of(base),
        spare=np.int64(rng.choice([0, 4, 8])),
        goal=set_of(goal),
        last=np.int64(rng.choice([0, 4]) if sum(size[v] for v in goal) + 4 <= budget else 0),
        budget=np.int64(budget),
    )
    prices = Prices(
        begin=np.array([rng.choice([0.0, 1.5]) if v in free else np.inf for v in range(values)]),
        wanted=np.array(wanted, dtype=np.int64),
        end=np.array([rng.choice([0.3, 2.0, 9.0]) for _ in wanted]),
        paging=np.array([rng.choice([0.0, 0.7]) for _ in range(values)]),
    )
    return stage, prices


def least_cost(stage: Stage, prices: Prices) -> float:
    """Forward through everything that may be done, one compute, page-in or free at a time."""
    values = range(len(stage.size))

    def members(of: int) -> list[int]:
        return [v for v in values if int(of) >> v & 1]

    def size(of: int) -> int:
        return sum(int(stage.size[v]) for v in members(of))

    least: dict[tuple[int, int], float] = {}
    waiting: list[tuple[float, int, int]] = []

    def reach(cost: float, ram: int, paid: int) -> None:
        if cost < least.get((ram, paid), np.inf):
            least[ram, paid] = cost
            heapq.heappush(waiting, (cost, ram, paid))

    free = [v for v in values if np.isfinite(prices.begin[v]) and not int(stage.base) >> v & 1]
    for count in range(len(free) + 1):
        for chosen in itertools.combinations(free, count):
            extra = sum(1 << v for v in chosen)
            if size(extra) <= stage.spare:
                reach(sum(float(prices.begin[v]) for v in chosen), int(stage.base) | extra, 0)
    best = np.inf
    while waiting:
        cost, ram, paid = heapq.heappop(waiting)
        if cost > least[ram, paid]:
            continue
        if not int(stage.goal) & ~ram and size(ram) + stage.last <= stage.budget:
            missing = [i for i, v in enumerate(prices.wanted) if not ram >> int(v) & 1]
            best = min(best, cost + sum(float(prices.end[i]) for i in missing))
        for v in members(ram):
            reach(cost, ram & ~(1 << v), paid)
        for v in values:
            if not ram >> v & 1 and np.isfinite(stage.in_energy[v]) and size(ram | 1 << v) <= stage.budget:
                price = 0.0 if paid >> v & 1 else float(prices.paging[v])
                reach(cost + float(stage.in_energy[v]) + price, ram | 1 << v, paid | 1 << v)
        for j in range(len(stage.node_energy)):
            own = int(stage.own[j])
            beside = ram & ~own
            fits = size(beside | own | int(stage.inputs[j])) + stage.workspace[j] <= stage.budget
            if not int(stage.inputs[j]) & ~beside and fits:
                reach(cost + float(stage.node_energy[j]), beside | own, paid)
    return best


@pytest.mark.parametrize("hundred", range(4))
def test_cheapest_way_is_that_of_a_search_forward(hundred: int) -> None:
    infinite = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        stage, prices = random_stage(seed)
        way = cheapest(stage, prices)
        expected = least_cost(stage, prices)
        infinite += np.isinf(expected)
        assert way.exact, seed
        assert way.cost == pytest.approx(expected), seed
        for enough in (0.5 * min(expected, 10.0), expected, expected + 1.0):
            assert cheapest(stage, prices, enough).cost == pytest.approx(min(expected, enough)), seed
    assert infinite < 80


def test_no_schedule_violates_a_cut_of_a_stage() -> None:
    cuts = binding = 0
    for seed in range(60):
        graph = random_graph(seed) if seed % 3 == 0 else training_like_graph(seed)
        problem = build_problem(graph, int(store_all_schedule(graph).peak_bytes * (0.55 + 0.1 * (seed % 4))), None)
        path = longest_path(problem)
        relaxed = build_relaxation(problem, path[:: 1 + seed % 3], np.inf, Conflicts(problem))
        points = [as_point(problem, relaxed, events) for events in schedules(problem, 3)]
        if not points:
            continue
        separator = StageCuts(problem, relaxed)
        lp = LpRelaxation(problem, relaxed)
        whole = lp.add_cuts(lp.whole(), lambda: 1e9, TimeBudget(2.0), 2, with_stage_cuts=True)
        rng = np.random.default_rng(seed)
        noise = [whole.point * rng.random(len(whole.point)) for _ in range(8)]
        # As a MILP's solutions are, whole numbers: schedules of which something is left out.
        broken = [np.where(rng.random(len(x)) < 0.1, 0.0, x) for x in points for _ in range(3)]
        for point in [whole.point, *noise, *(0.5 * (whole.point + points[0]),), np.round(whole.point), *broken]:
            rows = separator.separate(relaxed.model.upper, point, 3e4, UNLIMITED)
            for r, least in enumerate(rows.lower):
                entries = slice(rows.starts[r], rows.starts[r + 1])
                taken, weights = np.array(rows.columns[entries]), np.array(rows.coefficients[entries])
                assert float(weights @ point[taken]) < least
                reached = [float(weights @ x[taken]) for x in points]
                assert min(reached) >= least - 1e-5 * max(1.0, abs(least)), (seed, r)
                binding += min(reached) <= least + 1e-3
                cuts += 1
    assert cuts > 100
    assert binding > 10
