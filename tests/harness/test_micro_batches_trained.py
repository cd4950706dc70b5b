# SPDX-License-Identifier: Apache-2.0
"""Epochs in micro-batches trained for real, with pages: here and on the emulated board, held against PyTorch's loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app
from poet_harness.training.feeding import Order
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import write_headers
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.plan_folder.files import PlanFiles, write_plan
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support import needs
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.harness.flashed import flash
from tests.support.harness.trained import end_in_step

pytestmark = needs.emulator_and_gcc

MODEL, MOMENTUM, RATE, EPOCHS, SEED = "digits_cnn_small", 0.9, 0.05, 2, 11
COUNT, BATCH, PARTS, VALIDATED = 15, 4, 2, 6
STEPS = EPOCHS * (COUNT // BATCH)
BOARDS = {"native": ["--board", "native"], "nrf52840": ["--board", "nrf52840", "--emulate"]}


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan that both boards were flashed with, what it begins with, and samples, as f32 and as u8."""
    root = tmp_path_factory.mktemp("parts")
    step, plan = TrainingStep(MODEL).in_micro_batches(PARTS), root / "plan"
    graph = step.graph(load_board("nrf52840"), optimizer=Optimizer(momentum=MOMENTUM))
    lowered = step.inference(graph)
    schedule, inference = everything_paged(graph), everything_paged(lowered.graph)
    beside = Inference(lowered.graph, inference, lowered.data)
    write_plan(PlanFiles(graph=graph, schedule=schedule, inference=beside), plan)
    write_headers(graph, schedule, plan, {}, beside)
    write_arrays(training_data(MODEL, 2, 0, None), root / "data.npz")
    x = np.random.default_rng(3).integers(0, 17, (COUNT, 1, 8, 8), dtype=np.uint8)
    y = np.random.default_rng(4).integers(0, 10, COUNT)
    normal = (x.astype("f4") - np.float32(3)) * np.float32(1 / 17)
    np.savez(root / "set.npz", x=normal, y=y, x_val=normal[:VALIDATED], y_val=y[:VALIDATED])
    np.savez(root / "small.npz", x=x, y=y)
    flash(builds, plan, *BOARDS.values())
    return root


def run(folder: Path, board: str, name: str, *options: str) -> Any:
    given = ["train", *BOARDS[board], "--plan", str(folder / "plan"), "--data", str(folder / "data.npz")]
    given += ["--epochs", str(EPOCHS), "--shuffle", str(SEED), "--lr", str(RATE), "--schedule", "cosine"]
    given += ["--samples", str(folder / "set.npz"), "--folder", str(folder / name)]
    return CliRunner().invoke(app, [*given, "--trained", str(folder / f"{name}.safetensors"), *options])


def weights(folder: Path, name: str) -> dict[str, bytes]:
    return {id: array.tobytes() for id, array in load_file(folder / f"{name}.safetensors").items()}


@pytest.fixture(scope="module")
def trained(folder: Path) -> dict[str, bytes]:
    result = run(folder, "native", "whole", "--validate")
    assert result.exit_code == 0, result.output
    return weights(folder, "whole")


def test_they_are_trained_as_by_pytorchs_loop(folder: Path, trained: dict[str, bytes]) -> None:
    model, samples = models.load(MODEL), np.load(folder / "set.npz")
    x, y = torch.from_numpy(samples["x"]), torch.from_numpy(samples["y"])
    optimizer = torch.optim.SGD(model.module.parameters(), lr=RATE, momentum=MOMENTUM)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    order = Order(COUNT, BATCH, SEED)
    for step in range(STEPS):
        for chosen in torch.from_numpy(order(step)).chunk(PARTS):
            (model.loss(model.module(x[chosen]), y[chosen]) / PARTS).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    for name, tensor in model.module.state_dict().items():
        found = torch.from_numpy(np.frombuffer(trained[name], np.float32).reshape(tensor.shape).copy())
        torch.testing.assert_close(found, tensor, rtol=1e-6, atol=1e-6, msg=name)


def test_the_emulated_board_has_the_same_bits_also_with_its_samples_on_the_card(
    folder: Path, trained: dict[str, bytes]
) -> None:
    small = ["--samples", str(folder / "small.npz"), "--scale", "1/17", "--shift", "3"]
    for board, name, options in (
        ("native", "u8", small),
        ("native", "card", [*small, "--to-card", "--card", str(folder / "native.img")]),
        ("nrf52840", "board", [*small, "--to-card", "--card", str(folder / "board.img")]),
    ):
        result = run(folder, board, name, *options)
        assert result.exit_code == 0, result.output
        assert weights(folder, name) == trained, name
    rows = pd.read_csv(folder / "board" / "epochs.csv")
    assert set(rows["samples"]) == {COUNT // BATCH * BATCH}
    assert (rows["energy_j"] > 0).all()


def test_a_training_that_is_cut_ends_with_the_same_bits(folder: Path, trained: dict[str, bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        end_in_step(patch, 4)
        assert "after 4 steps; --resume" in str(run(folder, "native", "cut", "--validate").exception)
    options = ["--validate", "--resume", "--trained", str(folder / "rest.safetensors")]
    result = run(folder, "native", "cut", *options)
    assert result.exit_code == 0, result.output
    assert weights(folder, "rest") == trained
    rows, others = (pd.read_csv(folder / name / "epochs.csv")[["loss", "right"]] for name in ("whole", "cut"))
    pd.testing.assert_frame_equal(rows, others, check_exact=True)


def test_batches_of_a_file_with_commits(folder: Path) -> None:
    """The same bits in one run and in two, on both boards; pages are those of the plan."""
    given = ["--plan", str(folder / "plan"), "--data", str(folder / "data.npz"), "--lr", str(RATE)]
    found = []
    for board, card in (("native", "one.img"), ("nrf52840", "two.img")):
        options = [*BOARDS[board], *given, "--card", str(folder / card), "--commit-every", "1"]
        for steps, more in ((1, []), (2, ["--resume", "--trained", str(folder / f"{board}.safetensors")])):
            files = ["--out", str(folder / f"{board}{steps}.csv"), "--save", str(folder / f"{board}{steps}.npz")]
            result = CliRunner().invoke(app, ["run", *options, "--steps", str(steps), *files, *more])
            assert result.exit_code == 0, result.output
        found.append(weights(folder, board))
        losses = [np.load(folder / f"{board}{steps}.npz")["loss"] for steps in (1, 2)]
        found[-1]["loss"] = np.concatenate(losses).tobytes()
    assert found[0] == found[1]
    steps = json.loads((folder / "plan" / "schedule.json").read_text())["steps"]
    assert sum(step["do"] == "page_in" for step in steps) > 10
