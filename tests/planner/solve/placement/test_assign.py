# SPDX-License-Identifier: Apache-2.0
"""Where the best schedule gets no addresses, another does, and the memory of it holds by the verifier."""

from __future__ import annotations

from dataclasses import replace

import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.params import DEFAULTS, PlacementParams
from poet_planner.solve.placement.assign import Addressed, Addresses
from poet_planner.solve.search.annealer import Search
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.portfolio import Searches
from poet_planner.solve.statistics import Context
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Schedule, Status

from benchmarks.planner.layered import layered_graph

MOVES = 6000
# Layered graphs of which the best schedule after so many moves finds no place, in no order that costs as much.
WITHOUT_PLACE = (5, 12, 34)
# And those where it does in one of a dozen other orders.
IN_ANOTHER_ORDER = (20, 36)
# Long enough for a few plans, never reached.
LIMIT_S = 60.0


def addresses(
    graph: Graph, problem: Problem, budget: TimeBudget, notes: list[str], params: PlacementParams = DEFAULTS.placement
) -> Addresses:
    context = Context(params=replace(DEFAULTS, placement=params))
    return Addresses(graph, problem, 0, 0.3, LIMIT_S, budget, TimeBudget(2 * LIMIT_S), notes.append, context)


def searched(seed: int) -> tuple[Graph, Problem, list[Incumbent]]:
    graph = layered_graph(60, 10, seed)
    problem = build_problem(graph, int(0.6 * store_all_schedule(graph).peak_bytes), None)
    searches = Searches(problem, 0)
    searches.run(MOVES)
    return graph, problem, searches.found


def within_less(problem: Problem) -> Incumbent:
    """A schedule that needs four fifths of the RAM."""
    searches = Searches(problem._replace(budget=problem.budget * 4 // 5), 0)
    searches.run(MOVES)
    assert searches.incumbent is not None
    return searches.incumbent


def answer(graph: Graph, problem: Problem, found: Addressed) -> Schedule:
    return Schedule(
        graph=graph.name,
        graph_hash=graph_hash(graph),
        ram_budget_bytes=problem.budget + graph.resident_bytes,
        deadline_s=None,
        steps=found.placement.steps,
        energy_j=found.incumbent.energy,
        time_s=found.decoded.time_s,
        peak_bytes=found.decoded.peak + graph.resident_bytes,
        arena_bytes=found.placement.arena_bytes,
        status=Status.FEASIBLE,
        bound_j=0.0,
        gap=1.0,
    )


@pytest.mark.parametrize("seed", WITHOUT_PLACE)
def test_what_is_planned_again_has_addresses_and_holds(seed: int) -> None:
    graph, problem, all_found = searched(seed)
    notes: list[str] = []
    giving = addresses(graph, problem, TimeBudget(LIMIT_S), notes)
    assert giving.lack(all_found)

    found = giving.give(all_found)

    assert notes and "planning again" in notes[0]
    assert found.placement.arena_bytes <= problem.budget
    assert found.placement.without_place == ()
    assert verify(graph, answer(graph, problem, found)).faults == ()


def test_one_about_as_good_takes_the_place_of_the_best() -> None:
    graph, problem, (best, *_) = searched(WITHOUT_PLACE[0])
    dearer = within_less(problem)
    budget = TimeBudget(LIMIT_S)
    notes: list[str] = []
    assert addresses(graph, problem, budget, notes).lack([best, dearer])
    giving = addresses(graph, problem, budget, notes, PlacementParams(as_good=1e6))
    assert not giving.lack([best, dearer])
    budget.end()

    found = giving.give([best, dearer])

    assert notes == []
    assert found.incumbent == dearer
    assert verify(graph, answer(graph, problem, found)).faults == ()


@pytest.mark.parametrize("seed", IN_ANOTHER_ORDER)
def test_the_best_finds_its_place_in_another_order(seed: int) -> None:
    graph, problem, (best, *_) = searched(seed)
    notes: list[str] = []
    assert addresses(graph, problem, TimeBudget(LIMIT_S), notes, PlacementParams(orders=0)).lack([best])
    giving = addresses(graph, problem, TimeBudget(LIMIT_S), notes)
    assert not giving.lack([best])

    found = giving.give([best])

    assert notes == []
    assert found.incumbent.energy <= best.energy * (1 + 1e-9)
    assert verify(graph, answer(graph, problem, found)).faults == ()


def test_wandering_leads_to_other_orders_that_cost_no_more() -> None:
    _, problem, (best, *_) = searched(IN_ANOTHER_ORDER[0])
    search = Search(problem, 0)
    search.adopt(best.events)
    orders = {best.events.tobytes()}
    for _ in range(10):
        found = search.wander(200)
        assert found is not None
        assert found.energy <= best.energy * (1 + 1e-11)
        assert found.peak <= problem.budget
        orders.add(found.events.tobytes())
    assert len(orders) == 11


def test_without_time_what_had_addresses_before_is_the_answer() -> None:
    graph, problem, (best, *_) = searched(WITHOUT_PLACE[0])
    budget = TimeBudget(LIMIT_S)
    earlier = addresses(graph, problem, budget, []).give([best]).incumbent
    notes: list[str] = []
    giving = addresses(graph, problem, budget, notes)
    assert not giving.lack([earlier])
    budget.end()

    assert giving.give([best]).incumbent.energy == earlier.energy
    assert notes == []


def test_interrupted_planning_again_answers_with_what_had_addresses() -> None:
    graph, problem, (best, *_) = searched(WITHOUT_PLACE[0])
    dearer = within_less(problem)
    assert dearer.energy > 1.01 * best.energy

    def interrupt(_note: str) -> None:
        raise KeyboardInterrupt

    giving = Addresses(graph, problem, 0, 0.3, LIMIT_S, TimeBudget(LIMIT_S), TimeBudget(2 * LIMIT_S), interrupt)
    assert giving.lack([best])
    with pytest.raises(KeyboardInterrupt):
        giving.give([best])
    assert not giving.lack([dearer])
    assert giving.give([best]).incumbent.energy == dearer.energy
