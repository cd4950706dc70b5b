# SPDX-License-Identifier: Apache-2.0
"""What the optimiser says of its parts, and that each can be switched off."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, Parts, Statistics, optimise
from poet_planner.solve.statistics import Component, Context
from poet_profiles.graph import Graph

from tests.support.graphs.random_graphs import random_graph

SWITCHES = tuple(Component(field.name) for field in fields(Parts))


def instance() -> tuple[Graph, int]:
    """Thirty nodes in little RAM, without offsets by lowest fit alone: many parts have something to do."""
    graph = random_graph(2, 30)
    return graph, int(0.6 * store_all_schedule(graph).peak_bytes)


def test_every_part_that_a_plan_needs_is_always_on() -> None:
    assert set(Component) - set(SWITCHES) == {Component.ANNEALING, Component.FEASIBILITY, Component.PLACEMENT}
    everything_off = Context(Parts(**dict.fromkeys(SWITCHES, False)))
    assert {part for part in Component if everything_off.has(part)} == set(Component) - set(SWITCHES)


def test_what_the_parts_did_adds_up() -> None:
    graph, ram_bytes = instance()
    statistics = Statistics()
    schedule = optimise(graph, ram_bytes, None, OptimiseOptions(time_limit_s=60, gap=0.02, statistics=statistics))
    raised_j = sum(statistics.of(part).bound_raised_j for part in Component)
    assert raised_j > 0
    assert store_all_schedule(graph).energy_j + raised_j == pytest.approx(schedule.bound_j, rel=1e-9)
    found = statistics.improvements
    improved_j = sum(statistics.of(part).incumbent_improved_j for part in Component)
    assert improved_j > 0
    assert found[0].energy_j - improved_j == pytest.approx(found[-1].energy_j, rel=1e-9)
    assert all(one.energy_j > better.energy_j and one.seconds <= better.seconds for one, better in pairwise(found))
    assert schedule.energy_j >= found[-1].energy_j * (1 - 1e-9)
    assert {one.source for one in found} | {statistics.source} <= set(Component)
    worked = {part for part in Component if statistics.of(part).calls}
    assert worked >= {
        *(Component.ANNEALING, Component.EVICTION, Component.BACKGROUND_SEARCH),
        *(
            Component.RETAINED_SETS,
            Component.STATE_SPACE,
            Component.RELAXATION,
            Component.PLACEMENT,
        ),
    }
    assert all(statistics.of(part).seconds > 0 for part in worked)


@pytest.mark.parametrize("part", SWITCHES)
def test_without_a_part_the_plan_is_sound_and_the_part_does_nothing(part: Component) -> None:
    graph, ram_bytes = instance()
    statistics = Statistics()
    # The gap ends the run, not the clock, so that a busy machine plans the same.
    options = OptimiseOptions(time_limit_s=60, gap=0.1, parts=Parts(**{part: False}), statistics=statistics)
    schedule = optimise(graph, ram_bytes, None, options)
    assert verify(graph, schedule).faults == ()
    record = statistics.of(part)
    assert (record.seconds, record.calls) == (0, 0)
    assert statistics.source in set(Component) - {part}


def test_a_part_is_timed_without_those_that_it_calls() -> None:
    now_s = [0.0]
    context = Context(statistics=Statistics(clock=lambda: now_s[0]))
    with context.timed(Component.RELAXATION):
        now_s[0] += 1
        with context.timed(Component.MILP):
            now_s[0] += 10
            with context.timed(Component.MILP):
                now_s[0] += 100
        now_s[0] += 1000
        # What works on behalf of the relaxation is its own time.
        with context.within(Component.RELAXATION).timed(Component.EVICTION):
            now_s[0] += 10_000
    assert context.statistics.of(Component.RELAXATION).seconds == 11_001
    assert context.statistics.of(Component.MILP).seconds == 110
    assert [
        context.statistics.of(part).calls for part in (Component.RELAXATION, Component.MILP, Component.EVICTION)
    ] == [1, 1, 0]


def test_only_a_better_schedule_is_an_improvement() -> None:
    statistics = Statistics()
    statistics.found(1.0, 10.0, Component.EVICTION)
    statistics.found(2.0, 10.0 * (1 - 1e-14), Component.ANNEALING)
    statistics.found(3.0, 9.0, Component.CROSSOVER)
    statistics.found(4.0, 9.5, Component.ANNEALING)
    assert [(one.seconds, one.source) for one in statistics.improvements] == [(1.0, "eviction"), (3.0, "crossover")]
    assert statistics.of(Component.CROSSOVER).incumbent_improved_j == 1.0
    assert statistics.of(Component.EVICTION).incumbent_improved_j == 0.0
