# SPDX-License-Identifier: Apache-2.0
"""Every scheduler by name: its schedules against the verifier and the optimiser, and what it says it can do."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from poet_planner.comparison.compare import chosen
from poet_planner.comparison.methods import ablations
from poet_planner.comparison.registry import METHODS, method_named
from poet_planner.planning.method import Method, Option
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.schedule import Action, Objective, Schedule

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.kept_graphs import kept_step, random_kept_graph
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import random_graph, training_like_graph
from tests.support.graphs.taking_over import random_in_place_graph

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


@cache
def small_instance(seed: int) -> tuple[Graph, int, float, float]:
    """A graph, RAM and a deadline for it, and the least energy by brute force."""
    graph = training_like_graph(seed)
    store_all = store_all_schedule(graph)
    ram, deadline_s = int(0.9 * store_all.peak_bytes), 2 * store_all.time_s
    return graph, ram, deadline_s, least_energy(graph, ram, deadline_s)


def do(schedule: Schedule) -> set[Action]:
    return {step.do for step in schedule.steps}


@each_method
def test_schedules_keep_the_contract_and_are_never_better_than_brute_force(method: Method) -> None:
    """And do nothing that the method's record denies."""
    found = 0
    for seed in range(10):
        graph, ram, deadline_s, least_j = small_instance(seed)
        try:
            schedule = method.schedule(graph, ram, deadline_s, OptimiseOptions(time_limit_s=120))
        except UserError as lack:
            assert lack.exit_code == NO_SCHEDULE, seed
            continue
        found += 1
        assert verify(graph, schedule).faults == (), seed
        assert (schedule.ram_budget_bytes, schedule.deadline_s) == (ram, deadline_s), seed
        assert schedule.energy_j >= least_j * (1 - 1e-9), seed
        assert schedule.bound_j <= least_j * (1 + 1e-9), seed
        assert method.pages or not do(schedule) & {Action.PAGE_IN, Action.PAGE_OUT}, seed
        computes = [step.target for step in schedule.steps if step.do is Action.COMPUTE]
        assert method.recomputes or len(computes) == len(set(computes)), seed
    assert (found > 0) == (method.recomputes or method.pages)


@pytest.mark.parametrize("method", [m for m in METHODS if m.name != "page_all"], ids=lambda method: method.name)
def test_with_ram_and_time_enough_each_gives_the_store_all_schedule(method: Method) -> None:
    graph, store_all = paper_graph("linear.m4")
    schedule = method.schedule(graph, 2 * store_all.peak_bytes, None, OptimiseOptions(time_limit_s=120))
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(store_all.energy_j)
    assert schedule.ram_budget_bytes == 2 * store_all.peak_bytes


@each_method
def test_what_cannot_be_is_refused(method: Method) -> None:
    graph, store_all = paper_graph("linear.m4")
    for ram, deadline_s in ((store_all.peak_bytes // 4, None), (store_all.peak_bytes, 0.9 * store_all.time_s)):
        with pytest.raises(UserError) as caught:
            method.schedule(graph, ram, deadline_s, OptimiseOptions(time_limit_s=2))
        assert caught.value.exit_code == NO_SCHEDULE


def test_algorithm_1_as_printed_is_no_better_than_the_optimiser() -> None:
    graph, store_all = paper_graph("transformer.m4")
    ram, deadline_s = int(0.9 * store_all.peak_bytes), 2 * store_all.time_s
    schedule = method_named("poet_ilp").schedule(graph, ram, deadline_s, OptimiseOptions(time_limit_s=120))
    assert verify(graph, schedule).faults == ()
    best = optimise(graph, ram, deadline_s, OptimiseOptions(time_limit_s=10))
    assert best.energy_j <= schedule.energy_j * (1 + 1e-9)


def test_algorithm_1_says_the_smallest_ram_like_the_optimiser() -> None:
    graph, store_all = paper_graph("linear.m4")
    with pytest.raises(NoScheduleError) as caught:
        method_named("poet_ilp").schedule(graph, store_all.peak_bytes // 3, None, OptimiseOptions(time_limit_s=2))
    assert caught.value.possible_bytes == 3256


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(UserError, match=r"no method 'guess'; there are optimal, store_all, .*, poet_ilp"):
        method_named("guess")


def test_page_all_moves_everything_for_each_use() -> None:
    """a -> b -> c, and c needs a too: a leaves once and comes twice, b leaves and comes once, c stays."""
    page = PageCost(0.0, 0.1, 0.0, 0.01)
    nodes = (
        Node("a", 1.0, 1.0, (Value("a", 8, page),)),
        Node("b", 1.0, 1.0, (Value("b", 8, page),), ("a",)),
        Node("c", 1.0, 1.0, (Value("c", 8, page),), ("b", "a")),
    )
    schedule = page_all_schedule(Graph("g", nodes))
    assert verify(Graph("g", nodes), schedule).faults == ()
    assert schedule.energy_j == pytest.approx(3 + 2 * 0.1 + 3 * 0.01)
    assert schedule.peak_bytes == 24


@pytest.mark.parametrize("dma", [False, True])
def test_page_all_fetches_for_each_use_and_pages_nothing_after_a_change(dma: bool) -> None:
    graph = kept_step(dma)
    schedule = page_all_schedule(graph)
    assert verify(graph, schedule).faults == ()
    computed = Counter(step.target for step in schedule.steps if step.do is Action.COMPUTE)
    assert computed["x..fetch"] == computed["w..fetch"] == 2
    pages = Counter((step.do, step.target) for step in schedule.steps if step.do is not Action.COMPUTE)
    assert pages[Action.PAGE_IN, "y"] == 2  # for the gradient, and for what changes b
    assert all(pages[Action.PAGE_OUT, id] == 1 for id in ("product", "y", "gradient"))


def test_store_all_and_page_all_are_sound_whatever_the_graph() -> None:
    for seed in range(60):
        graph = replace(random_kept_graph(seed) if seed % 3 else random_graph(seed), dma=seed % 2 == 0)
        for schedule in (store_all_schedule(graph), page_all_schedule(graph)):
            assert verify(graph, schedule).faults == (), seed


READ: set[str] = set()


class _Options(OptimiseOptions):
    """Note what is read of them, but for a copy with something else changed."""

    def __getattribute__(self, name: str) -> Any:
        if sys._getframe(1).f_globals["__name__"] != "dataclasses":
            READ.add(name)
        return super().__getattribute__(name)


@each_method
def test_the_record_says_which_options_change_what_a_method_does(method: Method) -> None:
    """The others it never reads; but the objective, which it refuses."""
    graph, store_all = paper_graph("linear.m4")

    def refusal(options: OptimiseOptions, of_peak: float = 0.9) -> str:
        try:
            method.schedule(graph, int(of_peak * store_all.peak_bytes), None, options)
        except UserError as refused:
            return str(refused)
        return ""

    READ.clear()
    assert not refusal(_Options(clock=lambda: 0.0), of_peak=2.0)  # each gives offsets, whatever the time is
    refusal(_Options(time_limit_s=1.0))
    fields = {"seed": Option.SEED, "solver": Option.SOLVER, "time_limit_s": Option.TIME_LIMIT}
    changing = {option for field, option in fields.items() if field in READ}
    if "--objective time" not in refusal(OptimiseOptions(objective=Objective.TIME)):
        changing.add(Option.OBJECTIVE)
    assert changing == set(method.takes)
    assert ("no solver 'nosuch'" in refusal(OptimiseOptions(solver="nosuch"))) == (Option.SOLVER in method.takes)


def test_operators_in_place_are_planned_or_refused() -> None:
    """What a node takes over is gone after it; no method but the optimiser knows that."""
    slow = ("optimal", "paging_only", "rematerialization_only", "checkmate", "checkmate_lp", "poet_ilp")
    quick = [method for method in METHODS if method.name not in slow]
    found: Counter[str] = Counter()
    for seed in range(0, 40, 2):
        graph = random_in_place_graph(seed)
        ram = int(0.9 * store_all_schedule(graph).peak_bytes)
        for method in quick:
            try:
                schedule = method.schedule(graph, ram, None, OptimiseOptions())
            except UserError as lack:
                assert lack.exit_code == NO_SCHEDULE, (seed, method.name)
                continue
            assert verify(graph, schedule).faults == (), (seed, method.name)
            found[method.name] += 1
    assert {"dtr", "capuchin", "chen_sqrt"} <= set(found)


def test_poet_alone_starts_from_no_schedule_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def counted(*arguments: object) -> Schedule:
        given.append(arguments[3])
        return optimise(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ablations, "optimise", counted)
    graph = random_graph(3)
    known = store_all_schedule(graph)
    method = method_named("optimal_alone")
    schedule = method.schedule(graph, known.peak_bytes, None, OptimiseOptions(time_limit_s=0.5, starts=(known,)))
    assert verify(graph, schedule).faults == ()
    assert [options.starts for options in given] == [()]


def test_by_name_alone_is_asked_for_and_never_dropped_without_a_word() -> None:
    everything = {method.name for method in chosen("all")}
    assert not everything & {"optimal_alone", "paper"}
    assert [method.name for method in chosen("optimal_alone,paper")] == ["optimal", "optimal_alone", "paper"]
