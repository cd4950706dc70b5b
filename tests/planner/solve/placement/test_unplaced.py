# SPDX-License-Identifier: Apache-2.0
"""What placement costs, and what of it is proven, against exhaustive search."""

from __future__ import annotations

import random
from importlib import import_module

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, Parts, Statistics, optimise
from poet_planner.solve.placement import assign
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.statistics import Unplaced
from poet_profiles.graph import PageCost

from tests.support.graphs.blocks import UNPLACEABLE, Block, fits, full, graph_of

# The first block pages out and in again for half a joule. While it is away, the others fit.
PAGE = PageCost(0.25, 0.25, 0.25, 0.25)
WITHOUT_FIRST: list[Block] = [(0, 1, 8), (3, 4, 8), *UNPLACEABLE[1:]]


@pytest.mark.parametrize("canonical", [True, False])
def test_the_cheapest_schedule_has_no_offsets_and_only_the_complete_search_proves_it(
    canonical: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The work ends the run, not the clock.
    monkeypatch.setattr(import_module("poet_planner.solve.optimise"), "SEARCH_S", 0.05)
    monkeypatch.setattr(assign, "MOST_ATTEMPTS", 6)
    monkeypatch.setattr(assign, "REORDERINGS", 2)
    assert not fits(UNPLACEABLE, 20)
    assert fits(WITHOUT_FIRST, 20)
    graph, statistics = graph_of(UNPLACEABLE, PAGE), Statistics()
    options = OptimiseOptions(time_limit_s=60, parts=Parts(canonical=canonical), statistics=statistics)

    schedule = optimise(graph, 20, None, options)

    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == 7.5
    assert statistics.unplaced == Unplaced(7.0, canonical, 1, int(canonical))


def test_where_the_cheapest_schedule_has_offsets_placement_costs_nothing() -> None:
    graph, statistics = graph_of(UNPLACEABLE, PAGE), Statistics()
    schedule = optimise(graph, 24, None, OptimiseOptions(time_limit_s=5, statistics=statistics))
    assert fits(UNPLACEABLE, 24)
    assert schedule.energy_j == 7.0
    assert statistics.unplaced is None


def test_what_is_proven_of_a_schedule_is_what_exhaustive_search_says() -> None:
    """Bytes are alive at once up to the capacity, at every step."""
    impossible = 0
    for seed in range(50, 100):
        blocks, words = full(random.Random(seed))
        graph = graph_of([(lower, upper, 4 * size) for lower, upper, size in blocks])
        steps = store_all_schedule(graph).steps
        placed = place(graph, steps, 4 * words, lowest=False)
        assert placed.impossible == (placed.arena_bytes > 4 * words) == (not fits(blocks, words)), seed
        impossible += placed.impossible
    assert impossible > 3
