# SPDX-License-Identifier: Apache-2.0
"""`plan` as a function: what it takes, what it refuses, and that it is what the command line writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner import Model, NoScheduleError, OptimiseOptions, plan, verify
from poet_planner.cli import main
from poet_planner.graph import read_graph
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.schedule import Schedule, read_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.profile import read_profile
from poet_profiles.shipped import shipped_profile

GRAPH = Graph("two", (Node("a", 1.0, 1.0, (Value("a", 400),)), Node("b", 2.0, 3.0, (Value("b", 100),), ("a",))), 64)


def tiny() -> Model:
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    labels = torch.zeros(2, dtype=torch.int64)
    return Model("tiny", module, (torch.randn(2, 6),), (labels,), torch.nn.functional.cross_entropy)


def volumes() -> Model:
    module = torch.nn.Sequential(torch.nn.Conv3d(1, 2, 2), torch.nn.Flatten(), torch.nn.Linear(4, 3))
    x = torch.randn(2, 1, 2, 2, 3)
    return Model("volumes", module, (x,), tiny().targets, torch.nn.functional.cross_entropy)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def written(path: Path) -> object:
    """What a file says, without the seconds that the optimiser's parts took."""
    if path.suffix in (".npz", ".bin"):
        return path.read_bytes()
    text = path.read_text()
    if path.name != "summary.json":
        return text
    summary = json.loads(text)
    del summary["optimiser"]
    return summary


def test_it_writes_what_the_command_line_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ("--profile", "m4", "--model", "digits_cnn_small", "--ram", "90%", "--deadline", "2x", "--momentum", "0.9")
    options = ("--time-limit", "60", "--seed", "3", "--out", str(tmp_path / "theirs"))
    monkeypatch.setattr("sys.argv", ["poet-plan", *model, *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    limits = OptimiseOptions(time_limit_s=60, seed=3)
    mine = plan(
        "digits_cnn_small", profile="m4", ram="90%", deadline="2x", optimizer=Optimizer(momentum=0.9), options=limits
    )
    mine.write(tmp_path / "mine")
    theirs = files_in(tmp_path / "theirs")
    assert "inference/schedule.json" in theirs
    assert theirs == files_in(tmp_path / "mine")
    for name in (name for name in theirs if not name.endswith(".png")):
        assert written(tmp_path / "mine" / name) == written(tmp_path / "theirs" / name), name


def test_a_record_of_ones_own_plans_as_a_name_does() -> None:
    """It hears the limits and the options, and what it makes is verified."""
    asked: list[object] = []

    def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
        asked.extend((graph, ram_bytes, deadline_s, options.seed))
        return replace(store_all_schedule(graph), ram_budget_bytes=ram_bytes, deadline_s=deadline_s)

    mine = replace(OPTIMAL, name="mine", schedule=schedule)
    made = plan(GRAPH, ram=1000, deadline=9.0, method=mine, options=OptimiseOptions(seed=7))
    assert asked == [GRAPH, 1000, 9.0, 7]
    assert made.schedule == plan(GRAPH, ram=1000, deadline=9.0, method="store_all").schedule
    broken = replace(mine, schedule=lambda *asked: replace(schedule(*asked), energy_j=0.5))
    with pytest.raises(RuntimeError, match="breaks the contract"):
        plan(GRAPH, ram=1000, method=broken)


def test_a_graph_an_own_model_and_a_file_are_planned(tmp_path: Path) -> None:
    of_graph = plan(GRAPH, ram=1000, method="store_all")
    assert of_graph.graph is GRAPH
    assert of_graph.why_no_headers
    of_graph.write(tmp_path)
    of_file = plan(tmp_path / "graph.json", ram="1000", method="store_all")
    assert (of_file.schedule, of_file.graph) == (of_graph.schedule, GRAPH)
    assert read_schedule(tmp_path / "schedule.json") == of_graph.schedule
    assert json.loads((tmp_path / "summary.json").read_text())["energy_j"] == of_graph.summary.energy_j == 4.0
    own = plan(tiny(), profile="m0", options=OptimiseOptions(time_limit_s=1))
    assert own.graph.name == "tiny"
    assert own.why_no_headers is None
    assert own.schedule.ram_budget_bytes == own.form.budget_bytes
    assert verify(own.graph, own.schedule).sound
    assert read_graph(tmp_path / "graph.json") == GRAPH


def test_ram_and_deadline_are_numbers_or_words() -> None:
    for ram, deadline in ((250, 4.5), ("250", "4.5s"), ("250B", "1.5x")):
        prepared = prepare(Request(GRAPH, ram=ram, deadline=deadline))
        assert (prepared.budget_bytes, prepared.deadline_s) == (250, 4.5)
    assert prepare(Request(GRAPH, ram=2**53 - 1)).budget_bytes == 2**53 - 1


def test_the_price_of_the_last_bytes_is_said() -> None:
    """Of the demo, for which 13 KB more save most; where the limit is no cap, the question is beside it."""
    limit = OptimiseOptions(time_limit_s=2.0, capped=False)
    made = plan("digits_cnn", profile="nrf52840", ram="216KB", gradients="resident", options=limit)
    assert made.summary.more_ram is not None and made.summary.more_ram.saved > 0.5
    assert plan("digits_cnn", profile="nrf52840", ram="1MB", options=limit).summary.more_ram is None


def test_what_does_not_fit_says_what_would() -> None:
    with pytest.raises(NoScheduleError) as caught:
        plan(GRAPH, ram=300, options=OptimiseOptions(time_limit_s=1))
    assert caught.value.possible_bytes == 564


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"network": "digits_cnn"}, "nothing to plan"),
        ({"network": GRAPH}, "no board: give the RAM"),
        ({"network": GRAPH, "profile": "m4"}, "leave --profile out"),
        ({"network": GRAPH, "ram": 0}, "--ram 0: not an amount above zero"),
        ({"network": GRAPH, "ram": "much"}, "--ram much"),
        ({"network": GRAPH, "ram": 1000, "deadline": float("nan")}, "--deadline nan: not an amount above zero"),
        (
            {"network": GRAPH, "ram": 1000, "parameters": "some"},
            "--parameters some: there are auto, resident, card, excluded",
        ),
        ({"network": GRAPH, "ram": 1000, "gradients": "some"}, "--gradients some: there are auto, resident, paged"),
        ({"network": GRAPH, "ram": 1000, "method": "guess"}, "no method 'guess'"),
        ({"network": tiny(), "profile": "m4", "batch": 3}, "tiny comes with its own batch"),
        ({"network": tiny(), "profile": "no.csv"}, "no profile no.csv"),
        ({"network": tiny(), "profile": "m4", "board": "rpi4b"}, "no row of board rpi4b"),
        ({"network": volumes(), "profile": "m4"}, "0 (Conv3d): the firmware has no convolution of volumes"),
        (
            {"network": tiny(), "profile": "m4", "parameters": "excluded", "library": "net"},
            "--library net: tiny, param",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        plan(**asked)
    assert caught.value.exit_code == BAD_INPUT
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_is_traced_once_whatever_is_resident(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lowered in up to three layouts, and more on the card."""
    from poet_planner import tracing

    traced = []
    trace = tracing.trace

    def counted(*step: Any, **more: Any) -> object:
        traced.append(step)
        return trace(*step, **more)

    monkeypatch.setattr(tracing, "trace", counted)
    prepared = prepare(Request(tiny(), profile="m4", ram=100))
    assert "lie on the card" in prepared.note
    assert len(traced) == 2  # and once a part of its batch


def test_of_several_profiles_each_adds_what_those_before_lack(tmp_path: Path) -> None:
    shipped = read_profile(shipped_profile("mkr1000"))
    needed = {
        (node.operation.op, node.operation.params)
        for node in prepare(Request(tiny(), profile="mkr1000")).graph.nodes
        if node.operation
    }
    known = [row for row in zip(shipped["op"], shipped["params"], strict=True) if row in needed]
    own = tmp_path / "own.csv"
    one = shipped[(shipped["op"] == known[0][0]) & (shipped["params"] == known[0][1])].assign(time_s=7.0)
    one.to_csv(own, index=False)
    nodes = prepare(Request(tiny(), profile=[own, "mkr1000"])).graph.nodes
    seven = [node for node in nodes if node.time_s == 7.0]
    assert 0 < len(seven) < len(nodes)
    assert {(node.operation.op, node.operation.params) for node in seven if node.operation} == {known[0]}
    with pytest.raises(UserError, match="no row of board nrf52840"):
        prepare(Request(tiny(), profile=["nrf52840", own]))
