# SPDX-License-Identifier: Apache-2.0
"""If the best schedule stays unplaced, another is placed, and the verifier accepts it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.placement import assign
from poet_planner.solve.placement.assign import PlacedSchedule, Placer
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.decode import decode
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statistics import Context, Parts
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Schedule, Status

from benchmarks.planner.layered import layered_graph

MOVES = 6000
# Layered graphs of which the best schedule after so many moves stays unplaced, in every order that costs as much.
UNPLACED = (5, 12)
# And those where it does in one of a dozen other orders.
IN_ANOTHER_ORDER = (20, 36)
# The complete search places most of these.
WITHOUT_CANONICAL = Parts(canonical=False)
# Long enough for a few plans, never reached.
LIMIT_S = 60.0


def placer_of(graph: Graph, problem: Problem, budget: TimeBudget, notes: list[str]) -> Placer:
    context = Context(WITHOUT_CANONICAL)
    placer = Placer(graph, problem, 0, 0.3, notes.append, context)
    placer.begin(LIMIT_S, budget, TimeBudget(2 * LIMIT_S))
    return placer


@cache
def searched(seed: int) -> tuple[Graph, Problem, list[Incumbent]]:
    graph = layered_graph(60, 10, seed)
    problem = build_problem(graph, int(0.6 * store_all_schedule(graph).peak_bytes), None)
    portfolio = Portfolio(problem, 0)
    portfolio.run(MOVES)
    return graph, problem, portfolio.found


def test_the_complete_search_places_what_ejection_does_not() -> None:
    graph, problem, found = searched(34)
    steps = decode(graph, problem, found[0].events).steps
    without = place(graph, steps, problem.budget, lowest=False, context=Context(WITHOUT_CANONICAL))
    assert without.unplaced
    assert place(graph, steps, problem.budget, lowest=False).arena_bytes <= problem.budget


def within_less(problem: Problem) -> Incumbent:
    """A schedule that needs four fifths of the RAM."""
    portfolio = Portfolio(replace(problem, budget=problem.budget * 4 // 5), 0)
    portfolio.run(MOVES)
    assert portfolio.incumbent is not None
    return portfolio.incumbent


def answer(graph: Graph, problem: Problem, found: PlacedSchedule) -> Schedule:
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


@pytest.mark.parametrize("squeezes", [0, assign.SQUEEZES])
@pytest.mark.parametrize("seed", UNPLACED)
def test_what_is_squeezed_or_planned_again_is_placed_and_holds(
    seed: int, squeezes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assign, "SQUEEZES", squeezes)
    graph, problem, all_found = searched(seed)
    notes: list[str] = []
    placer = placer_of(graph, problem, TimeBudget(LIMIT_S), notes)
    assert placer.fails_near(all_found)

    found = placer.place(all_found)

    assert squeezes or "planning again" in notes[0]
    assert found.placement.arena_bytes <= problem.budget
    assert found.placement.unplaced == ()
    assert verify(graph, answer(graph, problem, found)).faults == ()


def test_one_about_as_good_takes_the_place_of_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, problem, (best, *_) = searched(UNPLACED[0])
    more_expensive = within_less(problem)
    budget = TimeBudget(LIMIT_S)
    notes: list[str] = []
    assert placer_of(graph, problem, budget, notes).fails_near([best, more_expensive])
    monkeypatch.setattr(assign, "AS_GOOD", 1e6)
    placer = placer_of(graph, problem, budget, notes)
    assert not placer.fails_near([best, more_expensive])
    budget.end()

    found = placer.place([best, more_expensive])

    assert notes == []
    assert found.incumbent == more_expensive
    assert verify(graph, answer(graph, problem, found)).faults == ()


@pytest.mark.parametrize("seed", IN_ANOTHER_ORDER)
def test_the_best_finds_its_place_in_another_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, problem, (best, *_) = searched(seed)
    notes: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(assign, "REORDERINGS", 0)
        assert placer_of(graph, problem, TimeBudget(LIMIT_S), notes).fails_near([best])
    placer = placer_of(graph, problem, TimeBudget(LIMIT_S), notes)
    assert not placer.fails_near([best])

    found = placer.place([best])

    assert notes == []
    assert found.incumbent.energy <= best.energy * (1 + 1e-9)
    assert verify(graph, answer(graph, problem, found)).faults == ()


def test_reordering_leads_to_other_orders_that_cost_no_more() -> None:
    _, problem, (best, *_) = searched(IN_ANOTHER_ORDER[0])
    search = Annealer(problem, 0)
    search.adopt(best.events)
    orders = {best.events.tobytes()}
    for _ in range(10):
        found = search.reorder(200)
        assert found is not None
        assert found.energy <= best.energy * (1 + 1e-11)
        assert found.peak <= problem.budget
        orders.add(found.events.tobytes())
    assert len(orders) == 11


def test_without_time_what_was_placed_before_is_the_answer() -> None:
    graph, problem, (best, *_) = searched(UNPLACED[0])
    budget = TimeBudget(LIMIT_S)
    earlier = placer_of(graph, problem, budget, []).place([best]).incumbent
    notes: list[str] = []
    placer = placer_of(graph, problem, budget, notes)
    assert not placer.fails_near([earlier])
    budget.end()

    assert placer.place([best]).incumbent.energy == earlier.energy
    assert notes == []


def test_interrupted_planning_again_answers_with_what_was_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "SQUEEZES", 0)
    graph, problem, (best, *_) = searched(UNPLACED[0])
    more_expensive = within_less(problem)
    assert more_expensive.energy > 1.01 * best.energy

    def interrupt(_note: str) -> None:
        raise KeyboardInterrupt

    placer, budget = Placer(graph, problem, 0, 0.3, interrupt, Context(WITHOUT_CANONICAL)), TimeBudget(LIMIT_S)
    placer.begin(LIMIT_S, budget, TimeBudget(2 * LIMIT_S))
    assert placer.fails_near([best])
    with pytest.raises(KeyboardInterrupt):
        placer.place([best])
    assert not placer.fails_near([more_expensive])
    assert placer.place([best]).incumbent.energy == more_expensive.energy
    assert budget.is_cut
