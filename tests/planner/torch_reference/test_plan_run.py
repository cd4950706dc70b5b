# SPDX-License-Identifier: Apache-2.0
"""`poet-plan execute` trains from a plan's folder alone, to the bits of `poet-plan reference`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from poet_planner import models
from poet_planner.lowering import lower_for_linux, with_updates
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.tracing import trace
from poet_profiles.schedule.file import write_schedule
from poet_runtime.program import Program, write_program
from poet_runtime.traced_graph import OptimizerUpdate

from tests.support.programs import Said, poet_plan

MODEL = ("--model", "mlperf_ds_cnn", "--batch", "2")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["store_all", "page_all"])
def test_it_leaves_the_references_bits(method: str, tmp_path: Path, capsys: Said) -> None:
    plan, data, found, expected = (tmp_path / name for name in ("plan", "data.npz", "found.npz", "expected.npz"))
    assert poet_plan(*MODEL, "--profile", "a72", "--method", method, "--out", plan) == 0
    assert poet_plan("data", *MODEL, "--steps", 3, "--out", data) == 0
    training = ("--data", data, "--lr", 0.05, "--momentum", 0.9)
    assert poet_plan("reference", "--model", "mlperf_ds_cnn", *training, "--out", expected) == 0
    capsys.readouterr()
    assert poet_plan("execute", plan, *training, "--threads", 1, "--json", "--out", found) == 0
    said = json.loads(capsys.readouterr().out)
    one, other = np.load(expected), np.load(found)
    assert sorted(one) == sorted(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert said["peak_bytes"] == pytest.approx(said["planned_peak_bytes"], rel=0.02)
    assert (said["traffic"]["out_bytes"] > 0) is (method == "page_all")
    assert said["loss"] == one["loss"].tolist()


OWN = """
from torch import nn, rand, randint
from poet_planner import Model

def make(batch):
    layers = nn.Conv2d(16, 32, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4)
    return Model("own", nn.Sequential(*layers), (rand(4, 16, 32, 32),), (randint(4, (4,)),), nn.CrossEntropyLoss())
"""


def test_kernels_that_take_more_than_was_measured_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_convolution.py").write_text(OWN)
    model = ("--model", "own_convolution:make")
    assert poet_plan(*model, "--profile", "a72", "--method", "store_all", "--out", "plan") == 0
    assert poet_plan("data", *model, "--steps", 1, "--out", "data.npz") == 0
    program = json.loads(Path("plan/program.json").read_text())
    for operator in program["operators"]:
        operator["workspace_bytes"] = 0
    for said in ("", "more memory than planned: with "):
        capsys.readouterr()
        assert poet_plan("execute", "plan", "--data", "data.npz") == 0
        err = capsys.readouterr().err
        assert said in err and bool(said) is ("more memory" in err)
        Path("plan/program.json").write_text(json.dumps(program))


def test_a_loss_that_is_no_number_ends_it_without_a_file(tmp_path: Path, capsys: Said) -> None:
    plan, data, found = (tmp_path / name for name in ("plan", "data.npz", "found.npz"))
    assert poet_plan(*MODEL, "--profile", "a72", "--method", "store_all", "--out", plan) == 0
    assert poet_plan("data", *MODEL, "--steps", 3, "--out", data) == 0
    capsys.readouterr()
    assert poet_plan("execute", plan, "--data", data, "--lr", 1e38, "--out", found) == 2
    assert "the loss of step 2 is no number: the rate 1e+38 is too high" in capsys.readouterr().err
    assert not found.exists()


def test_updates_inside_the_step_leave_the_same_bits(tmp_path: Path, capsys: Said) -> None:
    plan, data, found, expected = (tmp_path / name for name in ("plan", "data.npz", "found.npz", "expected.npz"))
    assert poet_plan("data", *MODEL, "--steps", 2, "--out", data) == 0
    model = models.load("mlperf_ds_cnn", 2)
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    gradients = {parameter: ref.source for parameter, ref in traced.gradients.items()}
    graph = with_updates(lower_for_linux(traced, dma=False, resident_gradients=False), gradients)
    plan.mkdir()
    updating = traced.updating([OptimizerUpdate(f"{name}..update", name) for name in gradients])
    write_program(Program.of_plan(updating, graph), plan / "program.json")
    write_schedule(store_all_schedule(graph), plan / "schedule.json")
    training = ("--data", data, "--lr", 0.05, "--momentum", 0.9)
    assert poet_plan("reference", "--model", "mlperf_ds_cnn", *training, "--out", expected) == 0
    assert poet_plan("execute", plan, *training, "--out", found) == 0
    one, other = np.load(expected), np.load(found)
    assert sorted(one) == sorted(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_other_folders_and_data_are_refused_in_one_line(tmp_path: Path, capsys: Said) -> None:
    plan, data = tmp_path / "plan", tmp_path / "data.npz"
    small = ("--model", "digits_cnn_small")
    assert poet_plan(*small, "--profile", "m4", "--method", "store_all", "--out", plan) == 0
    assert poet_plan("data", *small, "--steps", 1, "--batch", 2, "--out", data) == 0
    assert poet_plan("execute", plan, "--data", data) == 2
    assert "has no program.json; plan for a Linux board" in capsys.readouterr().err
    assert poet_plan(*small, "--profile", "a72", "--method", "store_all", "--out", plan) == 0
    assert poet_plan("execute", plan, "--data", data) == 2
    assert "input has shape (2, 1, 8, 8), the plan's has (4, 1, 8, 8)" in capsys.readouterr().err
    schedule = json.loads((plan / "schedule.json").read_text())
    (plan / "schedule.json").write_text(json.dumps({**schedule, "graph_hash": "0" * 16}))
    assert poet_plan("execute", plan, "--data", data) == 2
    assert "are of two graphs; plan again" in capsys.readouterr().err
