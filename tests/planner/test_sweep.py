"""`poet-plan sweep`: every budget and deadline planned, verified, tabled and drawn."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from poet_planner.cli import main
from poet_planner.graph import Graph, Node, PageCost, Value
from poet_planner.graph_file import write_graph
from poet_profiles.errors import BAD_INPUT


def test_less_ram_never_costs_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PageCost(3.0, 3.0, 3.0, 3.0)
    nodes = [Node("a", 1, 1, (Value("a", 400, page),))]
    nodes += [Node(id, 1, 1, (Value(id, 400, page),), (before,)) for before, id in ("ab", "bc", "cd")]
    nodes += [Node(f"{id}.grad", 1, 1, (Value(f"{id}.grad", 4),), (id,), backward=True) for id in "dcba"]
    write_graph(Graph("mirror", tuple(nodes)), tmp_path / "graph.json")
    out = tmp_path / "sweep"
    budgets = ("100%", "75%", "60%", "200")
    options = [option for budget in budgets for option in ("--ram", budget)]
    command = ["poet-plan", "sweep", "--graph", tmp_path / "graph.json", *options, "--time-limit", 1, "--out", out]
    monkeypatch.setattr("sys.argv", [str(word) for word in command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    points = pd.read_csv(out / "sweep.csv").sort_values("ram_budget_bytes")
    assert list(points["status"][:1]) == ["none"]
    planned = points[points["status"] != "none"]
    assert len(planned) == 3
    assert planned["energy_j"].is_monotonic_decreasing
    assert (planned["bound_j"] <= planned["energy_j"]).all()
    assert (planned["peak_bytes"] <= planned["ram_budget_bytes"]).all()
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


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
