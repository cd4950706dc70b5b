# SPDX-License-Identifier: Apache-2.0
"""Validation losses by the command lines, from model to epochs.csv: of targets without classes, and along sequences."""

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
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.support import ROOT, needs
from tests.support.harness.flashed import called

BOARD = ["--board", "native"]
COUNT, VALIDATED = 12, 5
ALONE = ("hard_activations", "sigmoid_bce", "logits_bce")
COUNTED = ("causal_encoder", "smoothed", "soft_targets", "some_labels", "lone_bce")

pytestmark = needs.gcc


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("validation")
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        yield root


def planned(name: str, plan: Path) -> None:
    called(planner, "--profile", ROOT / "profiles/nrf52840.csv", "--model", name, "--ram", "100%", "--out", plan)


@pytest.mark.parametrize("network", [*ALONE, *COUNTED])
def test_the_validation_loss_is_the_models_own_with_the_boards_weights(network: str, folder: Path) -> None:
    name, plan, kept = f"tests.support.networks.own:{network}", folder / f"{network}-plan", folder / network
    planned(name, plan)
    called(planner, "data", "--model", name, "--steps", 1, "--out", folder / "begin.npz")
    called(harness, "flash", *BOARD, "--plan", plan)
    model = models.load(name, COUNT + VALIDATED, seed=3)
    (x,), (y,) = model.inputs, model.targets
    arrays = {"x_train": x[:COUNT], "y_train": y[:COUNT], "x_val": x[COUNT:], "y_val": y[COUNT:]}
    np.savez(folder / "set.npz", **{key: array.numpy() for key, array in arrays.items()})
    trained, given = folder / f"{network}.safetensors", [*BOARD, "--plan", plan]
    training = ["--data", folder / "begin.npz", "--samples", folder / "set.npz", "--epochs", 2, "--lr", 0.05]
    called(harness, "train", *given, *training, "--validate", "--folder", kept, "--trained", trained)
    rows = pd.read_csv(kept / "epochs.csv")
    model.module.load_state_dict(load_file(trained))
    with torch.no_grad():
        loss = float(model.loss(model.module.eval()(x[COUNT:]), y[COUNT:]))
    assert rows["validation_loss"].iloc[-1] == pytest.approx(loss, rel=1e-4)
    assert set(rows["validated"]) == {VALIDATED}
    counted = network in COUNTED
    assert rows["right"].notna().all() == counted
    if network in ("soft_targets", "some_labels", "lone_bce"):
        labels = y[COUNT:].argmax(1) if y.is_floating_point() and y.dim() > 1 else y[COUNT:]
        with torch.no_grad():
            scores = model.module(x[COUNT:])
        right = ((scores.argmax(1) if network != "lone_bce" else scores[:, 0] > 0) == labels).sum()
        assert (rows["right"].iloc[-1], rows["labels"].iloc[-1]) == (int(right), int((labels >= 0).sum()))
    assert (kept / "best.safetensors").is_file()

    evaluated = ["eval", *given, "--samples", folder / "set.npz", "--weights", trained]
    if network == "lone_bce":
        evaluated += ["--threshold", 0.1, "--false-accepts", "400/1000", "--curve", folder / "curve.csv"]
    document = json.loads(called(harness, *evaluated, "--json").stdout)
    assert document["loss"] == pytest.approx(loss, rel=1e-4)
    if network == "lone_bce":
        heights, there = scores[:, 0].numpy(), labels.numpy() > 0
        at = document["detection"][0]
        assert (at["found"], at["there"]) == ((heights[there] > 0.1).sum(), there.sum())
        assert at["false_accepts"] == (heights[~there] > 0.1).sum()
        assert document["detection"][1]["rate"] <= 400
        assert "above 0.1: " in called(harness, *evaluated).stdout
        called(planner, "plot", folder / "curve.csv", "--figure", "detection")
        assert "false accepts in a thousand" in (folder / "detection.svg").read_text()
        unasked = CliRunner().invoke(harness, [*map(str, evaluated[:9]), "--detect", "it"])
        assert "--detect it: says nothing without --threshold" in str(unasked.exception)
    refused = CliRunner().invoke(harness, [*map(str, evaluated), "--per-class"])
    assert (refused.exit_code == 0) == counted
    if not counted:
        assert "--per-class: the plan's targets are no classes" in str(refused.exception)
        assert "no classes" in called(harness, *evaluated).stdout


def test_a_loss_without_a_name_is_told_and_without_classes_refused(folder: Path) -> None:
    """As of a plan of the last release, too."""
    name, plan, samples = "tests.support.networks.own:hard_activations", folder / "plan", folder / "other.npz"
    planned(name, plan)
    summary = json.loads((plan / "summary.json").read_text())
    summary["inference"]["loss"] = None
    (plan / "summary.json").write_text(json.dumps(summary))
    x, y = np.zeros((4, 10), "f4"), np.zeros((4, 3), "f4")
    np.savez(samples, x_train=x, y_train=y, x_val=x, y_val=y)
    called(planner, "data", "--model", name, "--steps", 1, "--out", folder / "begin.npz")
    given = ["train", *BOARD, "--plan", plan, "--data", folder / "begin.npz", "--samples", samples, "--epochs", 1]
    result = CliRunner().invoke(harness, [*map(str, given), "--validate"])
    assert "--validate: the targets are no classes, and the plan does not say what its loss is" in str(result.exception)
