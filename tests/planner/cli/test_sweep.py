# SPDX-License-Identifier: Apache-2.0
"""`poet-plan sweep`: every budget and deadline planned, verified, tabled and drawn."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from poet_planner.comparison import cluster as cluster_module
from poet_planner.comparison import compare
from poet_planner.comparison.registry import method_named
from poet_planner.comparison.warm_up import warm_up
from poet_planner.planning.method import OPTIMAL
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_profiles.errors import BAD_INPUT
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.file import graph_hash, read_graph, write_graph
from poet_profiles.schedule import Schedule

from tests.support.programs import Said, poet_plan


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    page = PageCost(3.0, 3.0, 3.0, 3.0)
    nodes = [Node("a", 1, 1, (Value("a", 400, page),))]
    nodes += [Node(id, 1, 1, (Value(id, 400, page),), (before,)) for before, id in ("ab", "bc", "cd")]
    nodes += [Node(f"{id}.grad", 1, 1, (Value(f"{id}.grad", 4),), (id,), backward=True) for id in "dcba"]
    path = tmp_path / "graph.json"
    write_graph(Graph("mirror", tuple(nodes)), path)
    return path


def swept(graph: Path, out: Path, *more: object) -> int:
    """The exit code of a sweep over four budgets."""
    options = [option for budget in ("100%", "75%", "60%", "200") for option in ("--ram", budget)]
    return poet_plan("sweep", "--graph", graph, *options, "--time-limit", 1, "--out", out, *more)


def test_less_ram_never_costs_less(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    assert swept(graph, out) == 0
    points = pd.read_csv(out / "points.csv").sort_values("ram_budget_bytes")
    assert list(points["status"][:1]) == ["none"]
    planned = points[points["status"] != "none"]
    assert len(planned) == 3
    assert planned["energy_j"].is_monotonic_decreasing
    assert (planned["bound_j"] <= planned["energy_j"]).all()
    assert (planned["peak_bytes"] <= planned["ram_budget_bytes"]).all()
    assert (out / "energy-vs-ram.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_that_was_interrupted_keeps_its_points_and_is_resumed(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """SIGTERM comes while the third point is planned, at which one call of the optimiser would answer early."""
    out, planned, optimise = tmp_path / "sweep", [], OPTIMAL.schedule

    def terminated(graph: Graph, ram_bytes: int, *rest: object) -> Schedule:
        planned.append(ram_bytes)
        if len(planned) == 3:
            signal.raise_signal(signal.SIGTERM)
        return optimise(graph, ram_bytes, *rest)  # type: ignore[arg-type]

    optimal = replace(OPTIMAL, schedule=terminated)
    monkeypatch.setattr(compare, "OPTIMAL", optimal)
    monkeypatch.setattr(compare, "METHODS", (optimal,))
    assert swept(graph, out) == 128 + signal.SIGTERM
    kept = pd.read_csv(out / "points.csv", dtype=str)
    assert sorted(kept["ram_budget_bytes"].astype(int)) == sorted(planned[:2])
    assert "holds 2 points" in capsys.readouterr().err
    assert swept(graph, out) == BAD_INPUT  # not overwritten without a word
    with (out / "points.csv").open("a") as stream:
        stream.write("mirror,,,torn")  # as by a crash
    assert swept(graph, out, "--resume", "--json") == 0
    assert len(planned) == 5
    everything = pd.read_csv(out / "points.csv", dtype=str)
    printed = json.loads(capsys.readouterr().out)
    assert [str(point["ram_budget_bytes"]) for point in printed] == list(everything["ram_budget_bytes"])
    assert kept.merge(everything).shape == kept.shape  # what was there is there
    assert swept(graph, out, "--resume", "--seed", 1) == 0
    assert len(planned) == 9  # another seed is another point
    assert len(pd.read_csv(out / "points.csv")) == 8


def test_each_problem_has_a_line_of_its_own(graph: Path, tmp_path: Path, capsys: Said) -> None:
    """It takes 8 s to compute all once. Deadlines that differ in the fourth digit are told apart."""
    deadlines = [word for late in ("none", "1x", "8.001", "8.004") for word in ("--deadline", late)]
    asked = ["--graph", graph, "--ram", "100%", *deadlines, "--time-limit", 1, "--out", tmp_path / "sweep"]
    assert poet_plan("sweep", *asked) == 0
    printed = capsys.readouterr()
    ram = pd.read_csv(tmp_path / "sweep" / "points.csv")["ram_budget_bytes"][0]
    lines = {line.partition(": ")[2] for line in printed.err.splitlines() if " of 4: " in line}
    limits = ("", ", within 8 s", ", within 8.001 s", ", within 8.004 s")
    assert lines == {f"mirror in {ram} B{limit}" for limit in limits}
    assert all(f"{late} s" in printed.out for late in (8, 8.001, 8.004))


def test_graphs_by_several_methods(graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two boards with proportional costs: each is planned for, and none is below the optimiser."""
    first = read_graph(graph)
    other = tmp_path / "other.json"
    nodes = [replace(n, time_s=3 * n.time_s, energy_j=5 * n.energy_j) for n in first.nodes]
    write_graph(replace(first, name="costly", nodes=tuple(nodes)), other)
    asked, dtr = [], method_named("dtr")

    def counted(*arguments: object) -> Schedule:
        asked.append(arguments[1])
        return dtr.schedule(*arguments)  # type: ignore[arg-type]

    listed = (
        *(OPTIMAL, replace(dtr, schedule=counted)),
        *(method_named(name) for name in ("page_all", "paging_only", "rematerialization_only")),
    )
    monkeypatch.setattr(compare, "METHODS", listed)
    out = tmp_path / "sweep"
    words = ("--graph", other, "--methods", "all", "--deadline", "none", "--deadline", "3x")
    assert swept(graph, out, *words) == 0
    points = pd.read_csv(out / "points.csv")
    assert len(points) == 2 * 4 * 2 * 5
    assert len(asked) == 2 * 4 * 2
    assert list(dict.fromkeys(points["model"])) == ["mirror", "costly"]
    optimal = points[points["method"] == "optimal"].set_index(["model", "ram_budget_bytes", "deadline_of_plain"])
    for row in points[points["energy_j"].notna()].itertuples():
        place = (row.model, row.ram_budget_bytes, row.deadline_of_plain)
        own = optimal.loc[[place]]["energy_j"].item()
        assert own <= row.energy_j * (1 + 1e-8)
    costly, source = (
        points[(points["model"] == model) & (points["method"] == "dtr") & points["energy_j"].notna()]
        for model in ("costly", "mirror")
    )
    assert len(costly) and list(costly["energy_j"]) == pytest.approx([5 * j for j in source["energy_j"]])
    assert list(costly["time_s"]) == pytest.approx([3 * s for s in source["time_s"]])


def test_a_table_that_is_none_is_not_resumed(graph: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "sweep"
    out.mkdir()
    (out / "points.csv").write_text("graph_hash,ram_budget_bytes\n")
    assert "no table" in refused(capsys, "sweep", "--graph", graph, "--out", out, "--resume")


@pytest.fixture
def distributed() -> Iterator[ModuleType]:
    """Dask without its look at GPUs: a stand-in for NVIDIA's library may be loaded from another test."""
    found = pytest.importorskip("distributed")
    with import_module("dask").config.set({"distributed.diagnostics.nvml": False}):
        yield found


def test_a_sweep_on_a_dask_cluster_plans_what_it_plans_here(
    distributed: Any, graph: Path, tmp_path: Path, capsys: Said
) -> None:
    assert swept(graph, tmp_path / "here") == 0
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        words = ("--scheduler", cluster.scheduler_address)
        assert swept(graph, tmp_path / "there", *words) == 0
        with distributed.Client(cluster) as client:
            loaded = client.run(lambda: warm_up.cache_info().currsize)
            assert list(loaded.values()) == [1, 1]
    here, there = (pd.read_csv(tmp_path / name / "points.csv").drop(columns="seconds") for name in ("here", "there"))
    assert here.equals(there)


def test_a_cluster_that_is_not_there_is_one_line(
    distributed: Any, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTING_S", 0.2)
    words = ("sweep", "--graph", graph, "--out", tmp_path / "sweep", "--scheduler")
    assert "cannot be reached" in refused(capsys, *words, "tcp://127.0.0.1:9")
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        assert "has no workers" in refused(capsys, *words, cluster.scheduler_address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "needs Dask" in refused(capsys, *words, "tcp://127.0.0.1:9")


def refused(capsys: Said, *words: object) -> str:
    """The one line that a command ends in."""
    assert poet_plan(*words) == BAD_INPUT
    *_, line = capsys.readouterr().err.splitlines()
    return line


def test_what_cannot_be_swept_is_one_line(tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "graph.json"
    write_graph(Graph("free", (Node("a", 0, 0, (Value("a", 4),)),)), path)
    assert "no energies" in refused(capsys, "sweep", "--graph", path)
    for option in (("--profile", "m4"), ("--model", "digits_cnn"), ("--batch", 2), ("--board", "nrf52840")):
        assert f"leave {option[0]} out" in refused(capsys, "sweep", "--graph", path, *option)
    assert "--jobs 0" in refused(capsys, "sweep", "--graph", path, "--jobs", 0)


def test_a_sweep_over_a_model_in_other_forms(tmp_path: Path) -> None:
    """It is planned in one form, whole, as the board's RAM has room for it: parameters are fetched, not streamed."""
    command = ["sweep", "--profile", "nrf52840", "--model", "digits_cnn_small", "--ram", "100%"]
    graphs = set()
    for form in (("--parameters", "resident"), ("--parameters", "card"), ("--gradients", "paged")):
        out = tmp_path / form[1]
        assert poet_plan(*command, *form, "--time-limit", "0.5", "--out", out) == 0
        graphs.add(pd.read_csv(out / "points.csv", dtype=str)["graph_hash"][0])
    others = [{"parameters": "card"}, {"gradients": "paged"}]
    prepared = {graph_hash(prepare(Request("digits_cnn_small", profile="nrf52840", **other)).graph) for other in others}
    assert len(graphs) == 3 and prepared < graphs


def test_a_sweep_over_batches_and_profiles(tmp_path: Path) -> None:
    profiles = [word for name in ("nrf52840", "m4") for word in ("--profile", name)]
    options = ["--model", "digits_cnn_small", "--batch", "1", "--batch", "2", "--ram", "100%", "--time-limit", "0.5"]
    assert poet_plan("sweep", *profiles, *options, "--out", tmp_path) == 0
    points = pd.read_csv(tmp_path / "points.csv")
    assert list(zip(points["profile_source"], points["batch"], strict=True)) == [
        *(("emulated", 1), ("emulated", 2), ("published", 1), ("published", 2))
    ]
    assert list(dict.fromkeys(points["board"])) == ["nrf52840 by nrf52840", "nrf52840 by m4"]
    assert set(points["status"]) == {"optimal"}
    assert points["graph_hash"].nunique() == 2 and points["costs_hash"].nunique() == 4
