# SPDX-License-Identifier: Apache-2.0
"""Plans made with wrong costs, priced with the right ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action

from benchmarks.evaluation import beliefs
from benchmarks.evaluation.records import read_rows, write_rows
from benchmarks.evaluation.results import NOT_RUN
from tests.support.graphs.paper_graphs import paper_graph

GRAPH, PLAIN = paper_graph("linear.m4")
RAM = int(0.5 * PLAIN.peak_bytes)


def test_a_plan_is_priced_by_the_costs_of_the_world() -> None:
    """Added up from the graph's own costs, a step at a time."""
    world = beliefs.scaled(GRAPH, [1 + 0.01 * k for k in range(len(GRAPH.nodes))], 3.0)
    plan = optimise(GRAPH, RAM, None, OptimiseOptions(time_limit_s=1.0))
    energy = {node.id: node.energy_j for node in world.nodes}
    page = {value.id: value.page for node in GRAPH.nodes for value in node.values}
    total = 0.0
    for step in plan.steps:
        paged = page.get(step.target)
        if step.do is Action.COMPUTE:
            total += energy[step.target]
        elif step.do in (Action.PAGE_IN, Action.PAGE_OUT):
            assert paged is not None
            total += 3 * (paged.in_energy_j if step.do is Action.PAGE_IN else paged.out_energy_j)
    assert beliefs.price_j(world, plan) == pytest.approx(total)
    assert beliefs.price_j(GRAPH, plan) == pytest.approx(plan.energy_j)


def test_what_is_no_schedule_of_the_graph_is_refused() -> None:
    plan = store_all_schedule(GRAPH)
    with pytest.raises(UserError, match="is no schedule of the graph"):
        beliefs.price_j(GRAPH, replace(plan, steps=plan.steps[1:]))


def test_beliefs_are_wrong_by_as_much_as_they_say() -> None:
    worlds = beliefs.beliefs(GRAPH)
    assert len(worlds) == 7
    assert worlds[beliefs.RIGHT] == GRAPH
    for name, world in worlds.items():
        times = [(node.time_s, other.time_s) for node, other in zip(GRAPH.nodes, world.nodes, strict=True)]
        assert all(0.8 * own <= other <= 1.2 * own for own, other in times)
        first, theirs = (graph.nodes[0].values[0].page for graph in (GRAPH, world))
        assert first is not None and theirs is not None
        factor = {"pages x 3": 3.0, "pages / 3": 1 / 3}.get(name, 1.0)
        assert theirs.out_energy_j == pytest.approx(factor * first.out_energy_j)
        assert theirs.in_time_s == pytest.approx(factor * first.in_time_s)


def test_the_best_plan_of_a_world_has_no_regret_and_a_dear_page_decides() -> None:
    rows = beliefs.rows_of(("linear", "m4", 0.5), GRAPH, RAM, 1.0)
    assert len(rows) == 49
    for world in {row.world for row in rows}:
        regrets = [row.regret for row in rows if row.world == world]
        assert min(regrets) == 0
        here = [row for row in rows if row.world == world]
        assert all(row.regret == pytest.approx(row.overhead - min(r.overhead for r in here)) for row in here)


def test_cases_are_resumed_and_what_was_not_run_is_said(tmp_path: Path) -> None:
    path, made = tmp_path / "beliefs.csv", []

    def plan(case: beliefs.Case, limit_s: float) -> list[beliefs.Row]:
        made.append(case)
        worlds = (beliefs.RIGHT, "operators, draw 1", "operators, draw 2", "each node", "pages x 3", "pages / 3")
        return [
            beliefs.Row(*case, beliefs.RIGHT, world, 0.5, 0.01 * k, limit_s, beliefs.code_version())
            for k, world in enumerate(worlds)
        ]

    beliefs.run_beliefs(2.0, path, plan)
    beliefs.run_beliefs(2.0, path, plan)
    assert made == list(beliefs.CASES)
    rows = read_rows(path, beliefs.Row)
    assert {row.case for row in rows} == set(beliefs.CASES)
    write_rows([row for row in rows if row.case != beliefs.CASES[2]], beliefs.Row, path)
    assert beliefs.facts(read_rows(path, beliefs.Row))["table"].count(NOT_RUN) == 5
    assert beliefs.facts(rows)["table"].count("| 50 | 1 to 2 | 3 | 4 | 5 |") == len(beliefs.CASES)
    beliefs.run_beliefs(2.0, path, plan)
    assert made[len(beliefs.CASES) :] == [beliefs.CASES[2]]
