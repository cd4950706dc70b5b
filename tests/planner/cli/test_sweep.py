# SPDX-License-Identifier: Apache-2.0
"""`poet-plan sweep`: every budget and deadline planned, verified, tabled and drawn."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from poet_planner.cli import main
from poet_planner.planning import methods
from poet_planner.planning.pipeline import prepare
from poet_profiles.errors import BAD_INPUT
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.file import graph_hash, write_graph
from poet_profiles.schedule import Schedule


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    page = PageCost(3.0, 3.0, 3.0, 3.0)
    nodes = [Node("a", 1, 1, (Value("a", 400, page),))]
    nodes += [Node(id, 1, 1, (Value(id, 400, page),), (before,)) for before, id in ("ab", "bc", "cd")]
    nodes += [Node(f"{id}.grad", 1, 1, (Value(f"{id}.grad", 4),), (id,), backward=True) for id in "dcba"]
    path = tmp_path / "graph.json"
    write_graph(Graph("mirror", tuple(nodes)), path)
    return path


def swept(monkeypatch: pytest.MonkeyPatch, graph: Path, out: Path, *more: object) -> int:
    """The exit code of a sweep over four budgets."""
    options = [option for budget in ("100%", "75%", "60%", "200") for option in ("--ram", budget)]
    command = ["poet-plan", "sweep", "--graph", graph, *options, "--time-limit", 1, "--out", out, *more]
    monkeypatch.setattr("sys.argv", [str(word) for word in command])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_less_ram_never_costs_less(graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "sweep"
    assert swept(monkeypatch, graph, out) == 0
    points = pd.read_csv(out / "sweep.csv").sort_values("ram_budget_bytes")
    assert list(points["status"][:1]) == ["none"]
    planned = points[points["status"] != "none"]
    assert len(planned) == 3
    assert planned["energy_j"].is_monotonic_decreasing
    assert (planned["bound_j"] <= planned["energy_j"]).all()
    assert (planned["peak_bytes"] <= planned["ram_budget_bytes"]).all()
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_that_was_interrupted_keeps_its_points_and_is_resumed(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM comes while the third point is planned, at which one call of the optimiser would answer early."""
    out, planned, optimise = tmp_path / "sweep", [], methods.OPTIMAL.schedule

    def terminated(graph: Graph, ram_bytes: int, *rest: object) -> Schedule:
        planned.append(ram_bytes)
        if len(planned) == 3:
            signal.raise_signal(signal.SIGTERM)
        return optimise(graph, ram_bytes, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(methods, "METHODS", (replace(methods.OPTIMAL, schedule=terminated),))
    assert swept(monkeypatch, graph, out) == 128 + signal.SIGTERM
    kept = pd.read_csv(out / "sweep.csv")
    assert sorted(kept["ram_budget_bytes"]) == sorted(planned[:2])
    assert "holds 2 points" in capsys.readouterr().err
    assert swept(monkeypatch, graph, out) == BAD_INPUT  # not overwritten without a word
    assert swept(monkeypatch, graph, out, "--resume", "--json") == 0
    assert len(planned) == 5
    everything = pd.read_csv(out / "sweep.csv")
    assert [point["ram_budget_bytes"] for point in json.loads(capsys.readouterr().out)] == list(
        everything["ram_budget_bytes"]
    )
    assert kept.merge(everything).shape == kept.shape  # what was there is there


def test_a_sweep_of_something_else_is_not_resumed(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep"
    assert swept(monkeypatch, graph, out) == 0
    capsys.readouterr()
    other = tmp_path / "other.json"
    write_graph(Graph("other", (Node("a", 1, 1, (Value("a", 4),)),)), other)
    assert "another graph" in refused(monkeypatch, capsys, "sweep", "--graph", other, "--out", out, "--resume")
    text = (out / "sweep.csv").read_text()
    (out / "sweep.csv").write_text(text.replace(",optimal,", ",optimal,much"))
    assert "line 3" in refused(monkeypatch, capsys, "sweep", "--graph", graph, "--out", out, "--resume")


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that a command ends in."""
    monkeypatch.setattr("sys.argv", ["poet-plan", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_what_cannot_be_swept_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    write_graph(Graph("free", (Node("a", 0, 0, (Value("a", 4),)),)), path)
    assert "no energies" in refused(monkeypatch, capsys, "sweep", "--graph", path)
    for option in (("--profile", "m4"), ("--model", "digits_cnn"), ("--batch", 2), ("--board", "nrf52840")):
        assert f"leave {option[0]} out" in refused(monkeypatch, capsys, "sweep", "--graph", path, *option)
    assert "--jobs 0" in refused(monkeypatch, capsys, "sweep", "--graph", path, "--jobs", 0)


def test_a_sweep_over_a_model_with_its_parameters_on_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is planned in one form, whole, as the board's RAM has room for it: parameters are fetched, not streamed."""
    command = ["poet-plan", "sweep", "--profile", "nrf52840", "--model", "digits_cnn_small", "--ram", "100%"]
    graphs = set()
    for parameters in ("resident", "card"):
        out = tmp_path / parameters
        options = ["--parameters", parameters, "--time-limit", "0.5", "--out", str(out)]
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        graphs.add(pd.read_csv(out / "sweep.csv", dtype=str)["graph_hash"][0])
    on_card = prepare("digits_cnn_small", profile="nrf52840", parameters="card").graph
    assert len(graphs) == 2 and graph_hash(on_card) in graphs
