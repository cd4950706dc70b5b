# SPDX-License-Identifier: Apache-2.0
"""The price of the last bytes, held against the least energy of every budget by brute force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from poet_planner.cli import main
from poet_planner.planning import more_ram as asking
from poet_planner.planning import pipeline
from poet_planner.planning.more_ram import more_ram
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.file import write_graph
from poet_profiles.schedule import Objective, Schedule

from tests.support.graphs.brute_force import least_energy

PAGE = PageCost(0.1, 40.0, 0.1, 40.0)
BRIEF = OptimiseOptions(time_limit_s=1)


def steps_of_energy() -> Graph:
    """Forward a, b, c, d and back. a and pages are expensive, b is large: energy falls in steps of RAM."""
    values = {"a": Value("a", 400, PAGE), "b": Value("b", 800), "c": Value("c", 400, PAGE), "d": Value("d", 400, PAGE)}
    nodes = [
        Node(
            name,
            1.0,
            60.0 if name == "a" else 1.0,
            (value,),
            tuple("abcd"["abcd".index(name) - 1 : "abcd".index(name)]),
        )
        for name, value in values.items()
    ]
    above = "d"
    for name in "dcba":
        gradient = f"{name}.grad"
        nodes.append(Node(gradient, 1.0, 1.0, (Value(gradient, 40),), tuple({above: 0, name: 0}), backward=True))
        above = gradient
    return Graph("steps", tuple(nodes), resident_bytes=64)


GRAPH = steps_of_energy()
STORE_ALL = store_all_schedule(GRAPH)


def planned(ram_bytes: int) -> Schedule:
    schedule = optimise(GRAPH, ram_bytes, None, BRIEF)
    assert schedule.energy_j == pytest.approx(least_energy(GRAPH, ram_bytes, None))
    return schedule


@pytest.mark.parametrize("ram_bytes", [1320, 1400, 1640])
def test_it_names_the_smallest_budget_that_saves_as_much(ram_bytes: int) -> None:
    schedule = planned(ram_bytes)
    found = more_ram(GRAPH, schedule, STORE_ALL, BRIEF)
    assert found is not None
    assert found.ram_budget_bytes == ram_bytes + found.more_bytes <= 1.2 * ram_bytes
    assert found.energy_j == pytest.approx(least_energy(GRAPH, found.ram_budget_bytes, None))
    assert found.saved == pytest.approx(1 - found.energy_j / schedule.energy_j)
    assert least_energy(GRAPH, found.ram_budget_bytes - 4, None) == pytest.approx(schedule.energy_j)


def test_it_says_nothing_where_there_is_nothing_to_say() -> None:
    assert least_energy(GRAPH, int(1.2 * 1360), None) == pytest.approx(least_energy(GRAPH, 1360, None))
    assert more_ram(GRAPH, planned(1360), STORE_ALL, BRIEF) is None


def test_nobody_asks_of_a_plan_that_is_cheap_or_is_the_shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "optimise", None)
    assert more_ram(GRAPH, planned(1680), STORE_ALL, BRIEF) is None
    by_time = OptimiseOptions(objective=Objective.TIME)
    assert more_ram(GRAPH, planned(1640), STORE_ALL, by_time) is None


def test_a_schedule_that_breaks_the_contract_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    schedule = planned(1640)
    monkeypatch.setattr(asking, "optimise", lambda *_: replace(schedule, energy_j=1.0))
    assert more_ram(GRAPH, schedule, STORE_ALL, BRIEF) is None


def test_the_question_stays_within_the_time_limit() -> None:
    assert 0 < asking.seconds_for(7) <= 0.71
    assert asking.seconds_for(600) == asking.MOST_SECONDS


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["poet-plan", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_the_command_line_tells_it_and_names_a_sweep_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(GRAPH, tmp_path / "graph.json")
    run(monkeypatch, "--graph", tmp_path / "graph.json", "--ram", 1640, "--time-limit", 1, "--out", tmp_path / "plan")
    [line] = [line for line in capsys.readouterr().out.splitlines() if "poet-plan sweep" in line]
    advice = "24 B more RAM would save 46.9 % of the energy: 68 J with --ram 1664"
    assert f"{advice};" in line
    summary = json.loads((tmp_path / "plan" / "summary.json").read_text())
    assert summary["more_ram"] == {
        "ram_budget_bytes": 1664,
        "more_bytes": 24,
        "energy_j": 68.0,
        "saved": pytest.approx(0.46875),
        "beyond_board": None,
    }
    run(monkeypatch, *line.partition("poet-plan ")[2].split(), "--time-limit", 0.2, "--out", tmp_path / "sweep")
    plan = ("--graph", tmp_path / "graph.json", "--ram", 1640, "--time-limit", 1, "--out", tmp_path / "plan")
    monkeypatch.setattr(pipeline, "plan_ram_bytes", lambda board, graph: 1640)
    run(monkeypatch, *plan, "--board", "mkr1000")
    shown = capsys.readouterr().out
    assert f"{advice} (more than mkr1000 has)\n" in shown and "poet-plan sweep" not in shown


@pytest.mark.parametrize(("most_bytes", "ram_bytes"), [(1660, None), (1664, 1664), (9000, 1664)])
def test_no_more_is_asked_about_than_there_is(most_bytes: int, ram_bytes: int | None) -> None:
    found = more_ram(GRAPH, planned(1640), STORE_ALL, BRIEF, most_bytes)
    assert (found and found.ram_budget_bytes) == ram_bytes
