# SPDX-License-Identifier: Apache-2.0
"""Plans of a batch in micro-batches: the optimiser and the verifier against brute force, multiplied by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.timeline import timeline
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.schedule import Objective

from tests.support.graphs.least_plans import assert_proven_as_by_brute_force
from tests.support.graphs.micro_batches import UPDATE, of_the_batch, random_parts


@pytest.mark.parametrize("tens", range(4))
def test_plans_are_those_of_brute_force(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        check(seed)


def check(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_parts(seed)
    plain = store_all_schedule(of_the_batch(graph))
    ram = int(plain.peak_bytes * rng.choice((1.0, 0.9, 0.8, 0.7, 0.6)))
    share = rng.choice((None, None, 1.2, 1.5))
    deadline_s = share and share * plain.time_s
    assert_proven_as_by_brute_force(graph, ram, deadline_s, of_the_batch(graph))


@pytest.mark.parametrize("seed", range(20))
def test_every_figure_is_of_the_batch(seed: int) -> None:
    graph = random_parts(seed)
    by_hand = store_all_schedule(of_the_batch(graph))
    made = store_all_schedule(graph)
    assert verify(graph, made).faults == ()
    assert (made.energy_j, made.time_s) == pytest.approx((by_hand.energy_j, by_hand.time_s))
    assert sum(moment.energy_j for moment in timeline(graph, made)) == pytest.approx(by_hand.energy_j)
    options = OptimiseOptions(time_limit_s=60, objective=Objective.TIME)
    fastest = optimise(graph, made.ram_budget_bytes, None, options)
    assert verify(graph, fastest).faults == ()
    assert fastest.energy_j >= by_hand.energy_j * (1 - 1e-9)
    paged = page_all_schedule(graph)
    assert verify(graph, paged).faults == ()
    assert paged.bound_j == pytest.approx(by_hand.energy_j)


@pytest.mark.parametrize("seed", range(20))
def test_the_verifier_multiplies_by_itself(seed: int) -> None:
    graph = random_parts(seed)
    made = store_all_schedule(graph)
    once = sum(node.energy_j for node in graph.nodes if node.id == UPDATE)
    others = sum(node.energy_j for node in graph.nodes if node.id != UPDATE)
    for count in range(1, 5):
        report = verify(replace(graph, micro_batches=count), made)
        assert report.energy_j == pytest.approx(count * others + once)
        assert report.sound == (count == graph.micro_batches)
