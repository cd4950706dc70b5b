# SPDX-License-Identifier: Apache-2.0
"""Parameters on the card: plan, flash, prepare, train, and go on another day, by the command lines, on the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app as harness
from poet_planner import models
from poet_planner.cli import app as planner
from poet_profiles.errors import UserError
from poet_profiles.graph.file import read_graph
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support import needs
from tests.support.harness.flashed import called, flash

pytestmark = needs.emulator

MODEL, STEPS, RATE = "digits_cnn_small", 3, "0.05"
BOARD = ["--board", "nrf52840", "--emulate"]


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan that is flashed on the emulated board, and its data."""
    root = tmp_path_factory.mktemp("kept")
    plan = ["--model", MODEL, "--profile", "nrf52840", "--parameters", "card", "--card-above", "64B"]
    called(planner, *plan, "--method", "page_all", "--out", str(root / "plan"))
    called(planner, "data", "--model", MODEL, "--steps", str(STEPS), "--out", str(root / "data.npz"))
    flash(builds, root / "plan", BOARD)
    return root


def train(root: Path, name: str, *options: str) -> tuple[pd.DataFrame, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Rows, losses, and the trained weights."""
    given = ["--plan", str(root / "plan"), "--data", str(root / "data.npz"), "--lr", RATE]
    results = ["--out", f"{name}.csv", "--save", f"{name}.npz", "--trained", f"{name}.safetensors"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        called(harness, "run", *BOARD, *given, *results, *options)
    weights = load_file(root / f"{name}.safetensors")
    return pd.read_csv(root / f"{name}.csv"), dict(np.load(root / f"{name}.npz")), weights


def test_a_plan_on_the_card_trains_as_pytorch_does(folder: Path) -> None:
    table, saved, weights = train(folder, "whole", "--steps", str(STEPS))
    assert set(table["source"]) == {"emulated"}
    traced = table[(table["training_step"] == 0) & (table["do"] == "compute")]
    assert {"fetch", "conv2d_update", "linear_update", "commit"} <= set(traced["op"])
    fetches = traced[traced["op"] == "fetch"]  # predicted from the profile's page rows
    for what in ("energy_j", "time_s"):
        assert fetches[f"observed_{what}"].sum() == pytest.approx(fetches[f"predicted_{what}"].sum(), rel=0.05)
    data, reference = str(folder / "data.npz"), str(folder / "reference.npz")
    called(planner, "reference", "--model", MODEL, "--data", data, "--lr", RATE, "--out", reference)
    exact = np.load(reference)
    np.testing.assert_allclose(saved["loss"], exact["loss"], rtol=1e-4)
    start = np.load(data)
    for name in exact.files:
        if name != "loss":
            parameter = name.removesuffix(".grad")
            moved = start[parameter] - np.float32(RATE) * exact[name].sum(axis=0)
            np.testing.assert_allclose(weights[parameter], moved, atol=1e-5)


def test_a_prepared_card_is_trained_on_two_days(folder: Path) -> None:
    image, given = str(folder / "card.img"), ["--plan", str(folder / "plan"), "--data", str(folder / "data.npz")]
    _, whole, expected = train(folder, "reference", "--steps", str(STEPS))
    called(harness, "card", image, *given)
    _, first, _ = train(folder, "first", "--steps", "2", "--card", image)
    assert "the weights of step 2 are whole" in called(harness, "card", image, "--read", *given[:2]).output
    with pytest.raises(UserError, match="holds the weights after 2 steps"):
        train(folder, "again", "--steps", str(STEPS), "--card", image)
    table, rest, found = train(folder, "rest", "--steps", str(STEPS), "--card", image, "--resume")
    assert set(table["training_step"]) == {2}
    np.testing.assert_array_equal(np.concatenate([first["loss"], rest["loss"]]), whole["loss"])
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_what_lies_on_the_card_infers_as_pytorch_does(folder: Path) -> None:
    """From the card that a training has left, and from one of its own with the weights of a file; neither changes."""
    image, given = folder / "infer.img", ["--plan", str(folder / "plan")]
    called(harness, "card", str(image), *given, "--data", str(folder / "data.npz"))
    train(folder, "trained", "--steps", "2", "--card", str(image))
    before, trained = image.read_bytes(), folder / "trained.safetensors"
    rows = np.random.default_rng(5).standard_normal((6, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "set.npz", x=rows, y=np.arange(6))
    found = []
    for name, source in (("restored", ["--restore", "--card", str(image)]), ("given", ["--weights", str(trained)])):
        save = ["--samples", str(folder / "set.npz"), "--save", str(folder / f"{name}.npz")]
        called(harness, "eval", *BOARD, *given, *save, *source)
        found.append(np.load(folder / f"{name}.npz")["scores"])
    assert found[0].tobytes() == found[1].tobytes()
    assert image.read_bytes() == before
    module = models.load(MODEL).module.eval()
    module.load_state_dict({id: torch.from_numpy(array) for id, array in load_file(trained).items()})
    with torch.no_grad():
        np.testing.assert_allclose(found[0], module(torch.from_numpy(rows)), rtol=1e-4, atol=1e-5)
    files = ["--samples", str(folder / "set.npz"), "--weights", str(trained), "--card", str(image)]
    with pytest.raises(UserError, match="those there would be lost; give --restore"):
        called(harness, "eval", *BOARD, *given, *files)


def test_epochs_go_on_from_the_card_with_the_bits_of_training_in_ram(folder: Path, builds: Path) -> None:
    """Two commands with one card, shuffled, with validation; and one command with parameters in RAM."""
    rows = np.random.default_rng(7).standard_normal((11, 1, 8, 8)).astype(np.float32)
    labels = np.arange(11) % 10
    np.savez(folder / "epochs.npz", x=rows[:7], y=labels[:7], x_val=rows[7:], y_val=labels[7:])
    called(planner, "--model", MODEL, "--profile", "nrf52840", "--method", "store_all", "--out", str(folder / "ram"))
    flash(builds, folder / "ram", BOARD)
    data = ["--samples", str(folder / "epochs.npz"), "--data", str(folder / "data.npz"), "--lr", RATE]
    data += ["--shuffle", "3", "--validate", "--best", "loss"]

    def train_epochs(plan: str, name: str, epochs: int, *more: str) -> None:
        kept = ["--folder", str(folder / name), "--trained", str(folder / f"{name}{epochs}.safetensors")]
        given = ["--plan", str(folder / plan), "--epochs", str(epochs), "--out", str(folder / f"{name}{epochs}.csv")]
        called(harness, "train", *BOARD, *given, *data, *kept, *more)

    card = ["--card", str(folder / "epochs.img")]
    train_epochs("ram", "in_ram", 2)
    train_epochs("plan", "on_card", 1, *card)
    with pytest.raises(UserError, match="name one that stays with --card FILE"):
        train_epochs("plan", "on_card", 2, "--resume")
    train_epochs("plan", "on_card", 2, "--resume", *card)
    columns = ["epoch", "steps", "samples", "learning_rate", "loss", "right", "labels", "validated", "validation_loss"]
    in_ram, on_card = (pd.read_csv(folder / name / "epochs.csv") for name in ("in_ram", "on_card"))
    pd.testing.assert_frame_equal(on_card[columns], in_ram[columns], check_exact=True)
    for name in ("{}2.safetensors", "{}/best.safetensors"):
        expected, found = (load_file(folder / name.format(one)) for one in ("in_ram", "on_card"))
        assert found.keys() == expected.keys()
        assert all(found[id].tobytes() == array.tobytes() for id, array in expected.items())
    other = ["--card", str(folder / "other.img")]
    with pytest.raises(UserError, match=r"holds the weights after 0 steps, and the folder goes on after \d+"):
        train_epochs("plan", "on_card", 3, "--resume", *other)


def test_a_plan_is_profiled_in_place_twice_on_the_same_card(folder: Path) -> None:
    given = ["--plan", str(folder / "plan"), "--data", str(folder / "data.npz"), "--steps", "2", "--lr", RATE]
    for name in ("place1", "place2"):
        place = ["--card", str(folder / "place.img"), "--out", str(folder / f"{name}.csv")]
        called(harness, "profile", *BOARD, *given, *place, "--quick", "--no-pages")
    first, second = (pd.read_csv(folder / f"{name}.csv").set_index(["op", "params"]) for name in ("place1", "place2"))
    assert "conv2d_update" in first.index.get_level_values("op")
    trained, inferred = (
        {(node.operation.op, node.operation.params) for node in read_graph(folder / name).nodes if node.operation}
        for name in ("plan/graph.json", "plan/inference/graph.json")
    )
    in_place = first["meter"].drop("idle").str.endswith(", in place")
    assert set(in_place[~in_place].index) <= inferred - trained  # an inference's operators have rows of their own
    assert in_place.any()
    np.testing.assert_allclose(second["time_s"], first["time_s"].loc[second.index], rtol=0.02)
    assert "4 steps" in CliRunner().invoke(
        harness, ["run", *BOARD, *given, "--card", str(folder / "place.img"), "--out", str(folder / "r.csv")]
    ).exception.args[0]  # fmt: skip
