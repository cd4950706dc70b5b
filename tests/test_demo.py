# SPDX-License-Identifier: Apache-2.0
"""The demo: its graph is the model's, it plans before it needs PyTorch, and it stops where what it shows is not so."""

from __future__ import annotations

import importlib.util
import shlex
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.planning.bench import Bench
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.report.quantities import energy_text
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash, read_graph

from tests.support import ROOT
from tests.support.command_options import unknown_options
from tests.support.hidden_package import hiding


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_demo", ROOT / "demo" / "digits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def commands(demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What the demo would run: nothing is."""
    ran: list[list[str]] = []
    monkeypatch.setattr(demo, "run", lambda *command, **_: ran.append(list(command)))
    monkeypatch.setattr(demo, "OUT", tmp_path)
    for shown in ("show_techniques", "compare", "conclude"):
        monkeypatch.setattr(demo, shown, lambda *_: None)
    monkeypatch.setattr(demo, "read_summary", lambda _: SimpleNamespace(micro_batches=24))
    monkeypatch.setattr(demo, "fall_of_loss", lambda _: (2.0, 1.0))
    return ran


@pytest.mark.parametrize(("name", "count"), [("BATCH", 1), ("MICRO_BATCH", 24)])
def test_its_graphs_are_the_models_with_the_costs_of_the_shipped_profile(
    name: str, count: int, demo: ModuleType
) -> None:
    committed = read_graph(ROOT / getattr(demo, name))
    assert_same_costs(committed, Bench(Request(demo.MODEL, demo.BOARD)).step(MemoryLayout(micro_batches=count)).graph)


def test_poet_chooses_its_micro_batches(demo: ModuleType) -> None:
    assert_same_costs(read_graph(ROOT / demo.MICRO_BATCH), prepare(Request(demo.MODEL, demo.BOARD, ram=demo.RAM)).graph)


def assert_same_costs(committed: Graph, made: Graph) -> None:
    cure = "make profiles writes the graphs of demo/ anew"
    assert graph_hash(committed) == graph_hash(made), cure
    for node, wanted in zip(committed.nodes, made.nodes, strict=True):
        assert (node.time_s, node.energy_j) == pytest.approx((wanted.time_s, wanted.energy_j), rel=1e-9), cure
        for value, other in zip(node.values, wanted.values, strict=True):
            assert (value.page is None) == (other.page is None), cure
            if value.page is not None and other.page is not None:
                assert vars_of(value.page) == pytest.approx(vars_of(other.page), rel=1e-9), cure


def vars_of(page: object) -> list[float]:
    return [getattr(page, name) for name in page.__dataclass_fields__]  # type: ignore[attr-defined]


def test_the_plan_and_its_pictures_come_first_and_without_pytorch(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in hiding("torch", tmp_path).items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "plan"
    monkeypatch.setattr(demo, "PLAN", out)
    demo.plan()
    for name in ("schedule", "ram", "energy"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    said = capfd.readouterr().out
    assert said.index("verified; wrote") < said.index(f"pictures: {out / 'schedule.png'}")
    summary = demo.read_summary(out / "summary.json")
    assert summary.peak_bytes <= 48 * 1024
    assert summary.micro_batches == 24 and summary.recomputes

    monkeypatch.setattr(demo, "TECHNIQUES", tmp_path / "techniques")
    store_all = demo.show_techniques()
    table = rows_of(capfd.readouterr().out)
    alone = ("recomputation alone", "paging alone", "recomputation and paging", "store-all in 24 micro-batches")
    assert [table[name] for name in alone] == ["none exists"] * 4
    assert table["24 micro-batches and recomputation"] == table["all three"] == energy_text(summary.energy_j)
    stated = rows_of((ROOT / "README.md").read_text(encoding="utf-8").replace("|", "│"))
    assert len(stated) == 6 and stated.items() <= table.items()

    run = tmp_path / "run.npz"
    np.savez(run, loss=np.linspace(3.0, 1.0, 20).reshape(20, 1))
    capfd.readouterr()
    demo.conclude(run, store_all)
    shown, pictures, own = capfd.readouterr().out.splitlines()
    assert "needs 426 KB of RAM, in 48 KB of the nrf52840's 256 KB (emulated)" in shown
    assert all((ROOT / path).is_file() for path in pictures.removeprefix("pictures: ").split(", "))
    program, *words = shlex.split(own.removeprefix("your own network: ").partition(" (")[0])
    assert (ROOT / program).is_file()
    assert unknown_options(["poet-plan", *words]) == set()


def rows_of(text: str) -> dict[str, str]:
    """The second column of a table, with energies or none, by the first."""
    rows = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
    return {row[1]: row[2] for row in rows if row[2].endswith(("J", "none exists"))}


@pytest.mark.parametrize("full", [False, True])
def test_the_rest_is_shown_only_when_asked_for(
    full: bool, demo: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["digits.py", *(["--full"] if full else [])])
    monkeypatch.chdir(ROOT)
    demo.main()
    assert commands[0][:3] == ["poet-plan", "--graph", "demo/micro_batch.json"]
    assert [command for command in commands if unknown_options(command)] == []
    verbs = [command[1] for command in commands if command[0] == "poet-harness"]
    assert verbs[:4] == ["flash", "run", "flash", "run"]
    assert ("profile" in verbs) == any("poet_ilp" in command for command in commands) == full


def test_the_other_board_is_a_sketch(
    demo: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place, stand_in in (
        ("shutil.which", str),
        ("poet_harness.arduino_library.write_arduino_library", Path),
        ("tests.support.arduino.built", lambda *_: tmp_path),
        ("tests.support.arduino.running", lambda *_, **__: nullcontext("/dev/ttyACM0")),
    ):
        monkeypatch.setattr(place, stand_in)
    monkeypatch.syspath_prepend(ROOT / "demo")
    monkeypatch.setattr("sys.argv", ["digits.py", "--board=riscv"])
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("POET_BOARDS", "")
    demo.main()
    assert [command for command in commands if unknown_options(command)] == []
    verbs = ["board", "graph", "profile", "--profile", "data", "flash", "run"]
    assert [command[1] for command in commands] == verbs


def test_a_loss_that_does_not_fall_stops_it(demo: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "run.npz"
    np.savez(run, loss=np.full((20, 1), 2.0))
    with pytest.raises(SystemExit, match="the loss did not fall"):
        demo.fall_of_loss(run)


@pytest.mark.parametrize(
    ("scheduled", "pytorch", "words"),
    [(0.0, 0.0, None), (1e-7, 0.0, "differs from the unlimited run"), (0.0, 1e-3, "differs from PyTorch")],
)
def test_another_bit_or_another_gradient_stops_it(
    scheduled: float, pytorch: float, words: str | None, demo: ModuleType, tmp_path: Path
) -> None:
    def write(name: str, off: float) -> Path:
        gradient = np.ones((20, 3), np.float32)
        gradient[:, 1] += np.float32(off)
        np.savez(tmp_path / name, **{"loss": np.ones((20, 1), np.float32), "fc.weight.grad": gradient})
        return tmp_path / name

    files = write("board.npz", scheduled), write("unlimited.npz", 0.0), write("pytorch.npz", pytorch)
    if words is None:
        demo.compare(*files)
        return
    with pytest.raises(SystemExit, match=words):
        demo.compare(*files)
