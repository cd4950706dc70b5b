# SPDX-License-Identifier: Apache-2.0
"""`poet-plan advise` with samples and a goal: what it advises is what the board then does."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import poet_planner as poet
import pytest
import torch
from poet_harness.cli import main as harness
from poet_planner.advice.advice import Advice, asked_of, request_for
from poet_planner.advice.candidates import STATEFUL, Cost, Step, Steps
from poet_planner.advice.curves import Curves, Data, Key, Sets
from poet_planner.advice.goal import goal_of
from poet_planner.advice.race import Candidate, Race
from poet_planner.advice.trained_sets import sets_of
from poet_profiles.errors import BAD_INPUT, NOT_FOUND
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support.programs import Said, exit_code, poet_plan

MODULE = """
import torch
from poet_planner import Model
from torch import nn
from torch.nn.functional import cross_entropy

def make(batch):
    torch.manual_seed(3)
    module = nn.Sequential(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    return Model("mine", module, (torch.randn(batch or 4, 2, 8),), (torch.arange(batch or 4) % 3,), cross_entropy)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a model and its samples are: waves of three lengths, with noise."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_advised.py").write_text(MODULE)
    random, y = np.random.default_rng(0), np.arange(120) % 3
    at = np.arange(8) + random.uniform(0, 8, (120, 1))
    waves = np.sin(at * (1 + y[:, None]) * 0.6)
    x = np.stack([waves, np.cos(at * (1 + y[:, None]) * 0.6)], 1) + random.normal(0, 0.2, (120, 2, 8))
    np.savez(tmp_path / "set.npz", x=x.astype(np.float32), y=y)
    return tmp_path


def advised(*more: object, goal: str = "accuracy 0.85", out: str = "advice") -> int:
    asked = ("--model", "mine_advised:make", "--board", "nrf52840", "--samples", "set.npz", "--goal", goal)
    return poet_plan("advise", *asked, "--draws", 3, "--epochs", 20, "--batch", 4, "--out", out, *more)


def test_what_is_advised_is_what_the_board_does(folder: Path, capsys: Said) -> None:
    """The five commands run as they are written on the emulated board."""
    assert advised("--json", "--battery", "cr2032") == 0
    document = json.loads(capsys.readouterr().out)
    winner = document["advice"]
    # 96 samples are 24 steps of four; 0.225 Ah at 3 V, less 15 % that stays and 10 % of the converter.
    worst_s = 24 * winner["epochs"] * winner["time_s"]
    times = 0.225 * 3600 * 3 * 0.85 * 0.9 / (max(winner["joules"]) + winner["idle_w"] * worst_s)
    assert winner["idle_w"] > 0
    assert any(f"a cr2032 lasts for {times:,.0f} such trainings" in one for one in document["told"])
    assert winner["joules"] == sorted(winner["joules"], key=lambda joules: joules > max(winner["joules"]))
    lines = (folder / "advice/commands.sh").read_text().splitlines()[2:]
    assert [shlex.split(line)[:2] for line in lines] == [
        ["poet-plan", "--model"],
        ["poet-plan", "data"],
        *(["poet-harness", verb] for verb in ("flash", "train", "eval")),
    ]
    command, path = ["sh", "advice/commands.sh"], f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "POET_EMULATE": "1"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (right,) = (line for line in ran.stdout.splitlines() if " of 24, " in line)
    assert int(right.split(" of 24")[0].split()[-1]) >= 0.85 * 24
    plan = json.loads((folder / "advice/plan/summary.json").read_text())
    assert plan["energy_j"] == winner["energy_j"]


def test_a_head_on_int8_has_the_boards_right_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """After each epoch, on the emulated board."""
    monkeypatch.setenv("POET_EMULATE", "1")
    data = np.load(folder / "set.npz")
    np.savez(folder / "ranges.npz", input=data["x"][:64], target=data["y"][:64])
    held = {"x": data["x"][24:], "y": data["y"][24:], "x_val": data["x"][:24], "y_val": data["y"][:24]}
    np.savez(folder / "held.npz", **held)
    int8 = ("--frozen", "int8", "--calibrate", "ranges.npz")
    assert advised("--train", "3", *int8[:2]) == BAD_INPUT
    assert "its ranges are those of samples; give --calibrate" in capsys.readouterr().err
    asked = asked_of(steps := _steps(), "held.npz", "accuracy 0.85")
    head = next(one for one in steps.sets if one.name == "head on int8")
    curves = Curves(steps.model(4), asked[0], asked[1].measure, traced=steps.traced)
    key = Key(head, 4, STATEFUL[0], 0.03, draw=2)
    for _ in range(5):
        curves.extend([key])
    named = ("--model", "mine_advised:make[3]", "--batch", 4)
    assert poet_plan(*named, *int8, "--profile", "nrf52840", "--momentum", 0.9, "--out", "plan") == 0
    assert poet_plan("data", *named, "--steps", 1, "--out", "begin.npz") == 0
    on_board = ("--board", "nrf52840", "--plan", "plan")
    assert exit_code(harness, "poet-harness", "flash", *on_board) == 0
    training = (
        "--data",
        "begin.npz",
        "--samples",
        "held.npz",
        "--epochs",
        5,
        "--shuffle",
        2,
        "--lr",
        0.03,
        "--validate",
        "--json",
    )
    capsys.readouterr()
    assert exit_code(harness, "poet-harness", "train", *on_board, *training) == 0
    epochs = json.loads(capsys.readouterr().out)["epochs"]
    assert [round(24 * value) for value in curves.values[key][1:]] == [one["right"] for one in epochs]


def _steps() -> Steps:
    asked = {"frozen": "int8", "calibrate": Path("ranges.npz")}
    return Steps("mine_advised:make", request_for("mine_advised:make", "nrf52840", None, **asked))


def test_an_interrupted_advice_goes_on_to_the_same_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    assert advised(out="whole") == 0
    calls, extend = 0, Curves.extend

    def ended(self: Curves, keys: Sequence[Key]) -> None:
        nonlocal calls
        calls += 1
        if calls == 15:
            signal.raise_signal(signal.SIGTERM)
        extend(self, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Curves, "extend", ended)
        assert advised(out="parts") == 128 + signal.SIGTERM
    assert "no candidate takes less than" in capsys.readouterr().err
    assert advised(out="parts") == BAD_INPUT
    assert advised("--resume", out="parts") == 0
    tables = [(folder / name / "table.csv").read_text() for name in ("whole", "parts")]
    assert tables[0] == tables[1]
    kept = [[*csv.reader((folder / name / "curves.csv").open())] for name in ("whole", "parts")]
    assert sorted(kept[0]) == sorted(kept[1])
    assert advised("--resume", "--clip-value", 1, out="parts") == BAD_INPUT
    assert "is of another clip" in capsys.readouterr().err
    (folder / "parts/curves.pt").write_bytes(b"abc")
    assert advised("--resume", out="parts") == BAD_INPUT
    assert "curves.pt: is damaged; name another --out" in capsys.readouterr().err


def test_a_second_board_and_goal_train_what_is_missing_alone(folder: Path) -> None:
    search = poet.Search(batches=(4,), draws=2, epochs=20)

    def asked(board: str, goal: str, kept: str) -> Advice:
        return poet.advise("mine_advised:make", "set.npz", goal, board=board, folder=folder / kept, search=search)

    first = asked("nrf52840", "accuracy 0.85", "kept")
    again = asked("nrf52840", "accuracy 0.8", "kept")
    other, alone = asked("mkr1000", "accuracy 0.85", "kept"), asked("mkr1000", "accuracy 0.85", "new")
    assert first.curves and again.curves and other.curves and alone.curves
    assert again.curves.epochs == 0
    assert other.curves.epochs < alone.curves.epochs
    assert other.winner and alone.winner and other.joules == alone.joules


def test_samples_of_one_group_are_held_back_together(folder: Path, capsys: Said) -> None:
    who = np.array([f"person {number // 8}" for number in range(120)])
    np.save(folder / "who.npy", who)
    np.save(folder / "few.npy", who[:9])
    assert advised("--groups", "who.npy") == 0
    given, made = np.load(folder / "set.npz"), np.load(folder / "advice/samples.npz")
    of = {x.tobytes(): one for x, one in zip(given["x"], who, strict=True)}
    learned, held = ({of[x.tobytes()] for x in made[f"x_{part}"]} for part in ("train", "val"))
    assert learned | held == {*who} and not learned & held
    assert advised("--groups", "few.npy", out="none") == BAD_INPUT
    assert "few.npy: is of shape (9,); give a number or word for each of the 120 samples" in capsys.readouterr().err
    np.savez(folder / "held.npz", x_train=given["x"], y_train=given["y"], x_val=given["x"], y_val=given["y"])
    assert advised("--groups", "who.npy", "--samples", "held.npz", out="none") == BAD_INPUT
    assert "--groups: says nothing beside x_val" in capsys.readouterr().err
    np.save(folder / "one.npy", np.zeros(120))
    assert advised("--groups", "one.npy", out="none") == BAD_INPUT
    assert "give more groups of each class, or x_val and y_val" in capsys.readouterr().err


def test_labels_at_random_have_no_advice() -> None:
    """Half are to be right where a third is by chance; with three draws 2 of 20 would have one."""
    cost, random = Cost(1.0, 1.0, 0.0, 0.0, 1, 1, 1, "", False), torch.Generator().manual_seed(0)
    for _ in range(20):
        x, y = torch.randn(60, 6, generator=random), torch.randint(3, (60,), generator=random)
        module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        model = poet.Model("random", module, (x[:4],), (y[:4],), cross_entropy)
        goal = goal_of("accuracy 0.5", lambda outputs, targets: 0.0)
        sets = Sets(Data((x,), (y,)))
        ones = [Candidate(Step(sets_of(module)[-1], 4, of, cost), rate) for of in STATEFUL for rate in (0.01, 0.1)]
        race = Race(ones, Curves(model, sets, goal.measure), goal, [sets.counts(0)[0]] * poet.Search().draws, 12)
        race.run()
        assert race.winner is None


def test_what_nothing_reaches_is_said(folder: Path, capsys: Said) -> None:
    assert advised("--train", "0", goal="loss 1e-6") == NOT_FOUND
    said = capsys.readouterr()
    assert "nothing of these reaches the goal" in said.err
    assert "never kept: " in said.out
    assert not (folder / "advice/commands.sh").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--goal", "accuracy 0.8"), "--samples and --goal go together"),
        (("--draws", "3"), "--draws: says nothing without --samples"),
        (("--samples", "none.npz", "--goal", "accuracy 0.8"), "none.npz: cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused(folder: Path, options: tuple[str, ...], words: str, capsys: Said) -> None:
    assert poet_plan("advise", "--model", "mine_advised:make", "--board", "nrf52840", *options) == BAD_INPUT
    assert words in capsys.readouterr().err
