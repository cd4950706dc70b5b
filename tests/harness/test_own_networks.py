# SPDX-License-Identifier: Apache-2.0
"""Own networks on an emulated board: planned, flashed and trained by the command lines, each step against autograd.

Then they are evaluated there, with the weights that they were trained to, and by PyTorch with the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app as harness
from poet_planner import models
from poet_planner.cli import app as planner
from poet_planner.torch_reference.training_data import reference_run
from poet_profiles.graph.file import read_graph
from safetensors.torch import load_file

from tests.support import ROOT, needs
from tests.support.harness.flashed import called

BOARD = ["--board", "nrf52840", "--emulate"]
STEPS = 3
RATE = 0.05
TOLERANCE = 1e-5

pytestmark = needs.emulator


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where plans and results lie."""
    root = tmp_path_factory.mktemp("own")
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        yield root


@pytest.mark.parametrize("network", ["keyword_spotter", "frozen_backbone", "u_net", "temporal", "causal_encoder"])
def test_gradients_on_the_board_equal_autograd(network: str, folder: Path) -> None:
    model, plan = f"tests.support.networks.own:{network}", str(folder / f"{network}-plan")
    data, saved = folder / f"{network}.npz", folder / f"{network}-saved.npz"
    profile = str(ROOT / "profiles" / "nrf52840.csv")
    called(planner, "--profile", profile, "--model", model, "--ram", "100%", "--time-limit", "1", "--out", plan)
    called(planner, "data", "--model", model, "--steps", str(STEPS), "--out", str(data))
    called(harness, "flash", *BOARD, "--plan", plan)
    trained = folder / f"{network}.safetensors"
    files = [
        *("--data", str(data), "--out", str(folder / "observed.csv")),
        *("--save", str(saved), "--trained", str(trained)),
    ]
    called(harness, "run", *BOARD, "--plan", plan, *files, "--steps", str(STEPS), "--lr", str(RATE))
    expected = reference_run(model, data, RATE, follow=saved)
    observed = np.load(saved)
    assert len(expected) > 2
    for name, steps in expected.items():
        for step, (exact, found) in enumerate(zip(steps, observed[name], strict=True)):
            difference = np.abs(found.reshape(exact.shape) - exact).max()
            assert difference <= TOLERANCE * np.abs(exact).max(), (name, step)
    check_evaluation(model, plan, trained, folder)


def check_evaluation(name: str, plan: str, trained: Path, folder: Path) -> None:
    """The board's scores and accuracy are PyTorch's, with the weights read back."""
    model = models.load(name)
    model.module.load_state_dict(load_file(trained), strict=True)
    (x,), (y,) = model.inputs, model.targets
    with torch.no_grad():
        expected = model.module.eval()(x).numpy()
    np.savez(folder / "set.npz", x=x.numpy(), y=y.numpy())
    files = ["--samples", str(folder / "set.npz"), "--weights", str(trained), "--save", str(folder / "scores.npz")]
    result = json.loads(called(harness, "eval", *BOARD, "--plan", plan, *files, "--json").stdout)
    scores = np.load(folder / "scores.npz")["scores"]
    assert np.abs(scores - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())
    assert (result["samples"], result["correct"]) == (len(x), int((expected.argmax(-1) == y.numpy()).sum()))
    assert result["energy_j"] > 0


def test_the_default_plan_trains_on_its_board(folder: Path) -> None:
    """Parameters of `poet_resnet18` are four times the RAM: they go to the card unasked."""
    plan, data, observed = folder / "default-plan", folder / "default.npz", folder / "default.csv"
    called(planner, "--profile", str(ROOT / "profiles" / "m4.csv"), "--time-limit", "3", "--out", str(plan))
    model = read_graph(plan / "graph.json").name
    called(planner, "data", "--model", model, "--steps", "1", "--out", str(data))
    called(harness, "flash", *BOARD, "--plan", str(plan))
    called(harness, "run", *BOARD, "--plan", str(plan), "--data", str(data), "--out", str(observed), "--steps", "1")
    losses = pd.read_csv(observed)["loss"].dropna()
    assert losses.iloc[-1] == pytest.approx(float(reference_run(model, data, RATE)["loss"][0]), rel=TOLERANCE)
