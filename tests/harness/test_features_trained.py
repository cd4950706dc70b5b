# SPDX-License-Identifier: Apache-2.0
"""A head trained on features that the board keeps, on the firmware here: the weights are those of whole steps."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.data.samples import read_samples
from poet_harness.plan_folder.plan import read_plan
from poet_harness.target.connect import connect
from poet_harness.training.features import KeptSamples, KeptSet
from poet_harness.training.feeding import Order, OverTheLine
from poet_harness.training.trainer import Trainer
from poet_harness.verbs.flash import image_path
from poet_planner import Optimizer, models, plan
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.boards import load_board
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support.harness.flashed import flash

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

MODEL, BATCH, COUNT, EPOCHS, SEED, RATE = "finetune_cnn_small", 4, 18, 3, 7, 0.05
ASKED = {"profile": "nrf52840", "batch": BATCH, "optimizer": Optimizer(momentum=0.9)}
# The tightest RAM has features made of fewer samples than a batch at a time.
PLANS: dict[str, dict[str, Any]] = {"whole": {"features": "whole"}, "kept": {}, "tight": {"features": 0, "ram": "30KB"}}


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("features")
    write_arrays(training_data(MODEL, 1, 0, BATCH), root / "data.npz")
    drawn = np.random.default_rng(3)
    shape = models.load(MODEL).inputs[0].shape[1:]
    np.savez(root / "set.npz", x=drawn.standard_normal((COUNT, *shape)).astype("f4"), y=drawn.integers(0, 10, COUNT))
    for name, more in PLANS.items():
        made = plan(MODEL, **ASKED, **more)  # type: ignore[arg-type]
        made.write_files(root / name)
        assert (made.extraction is None) == (name == "whole")
        if name == "tight":
            assert made.extraction is not None and made.extraction.at_once < BATCH
        flash(builds, root / name, ["--board", "native"])
    return root


def train(folder: Path, name: str, *options: str, samples: str = "set.npz", out: str = "") -> Any:
    given = ["train", "--board", "native", "--plan", str(folder / name), "--data", str(folder / "data.npz")]
    given += ["--epochs", str(EPOCHS), "--shuffle", str(SEED), "--lr", str(RATE)]
    given += ["--samples", samples if ":" in samples else str(folder / samples)]
    given += ["--folder", str(folder / f"run_{out or name}"), "--trained", str(folder / f"{out or name}.safetensors")]
    return CliRunner().invoke(app, [*given, *options])


def rows(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"run_{name}" / "epochs.csv")


def by_pytorch(folder: Path) -> dict[str, torch.Tensor]:
    """The whole model, in PyTorch's own loop."""
    model, samples = models.load(MODEL, BATCH), np.load(folder / "set.npz")
    x, y = torch.from_numpy(samples["x"]), torch.from_numpy(samples["y"])
    order = Order(COUNT, BATCH, SEED)
    trained = [one for one in model.module.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE, momentum=0.9)
    for step in range(EPOCHS * (COUNT // BATCH)):
        chosen = torch.from_numpy(order(step))
        optimizer.zero_grad()
        model.loss(model.module(x[chosen]), y[chosen]).backward()
        optimizer.step()
    return model.module.state_dict()


def test_kept_features_train_what_whole_steps_do(folder: Path) -> None:
    for name in PLANS:
        result = train(folder, name)
        assert result.exit_code == 0, result.output
        said = f"features of {COUNT} samples are computed once" in result.stderr
        assert said == (name != "whole")
    whole, kept, tight = (load_file(folder / f"{name}.safetensors") for name in PLANS)
    assert whole.keys() == kept.keys() == tight.keys()
    for name, tensor in by_pytorch(folder).items():
        assert kept[name].tobytes() == whole[name].tobytes(), name
        np.testing.assert_allclose(tight[name], whole[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(whole[name], tensor, rtol=1e-5, atol=1e-5)
    for name in ("kept", "tight"):
        table = rows(folder, name)
        assert (table["features_time_s"].iloc[0] > 0) and (table["features_time_s"] <= table["time_s"]).all()
    # An epoch leaves out others of the samples that a batch does not divide: all have been made in the first.
    for name in ("kept", "tight"):
        assert (rows(folder, name)["features_time_s"] > 0).tolist() == [True] + [False] * (EPOCHS - 1)


def never(step: int, part: int) -> None:
    """Samples whose features are kept are asked for by number."""
    raise AssertionError


def test_another_set_is_not_taken_for_what_the_board_has_kept(folder: Path) -> None:
    """A board's RAM outlives a command: features of the same numbers are there, of other samples."""
    read = read_plan(folder / "kept")
    data = replace(read_training_data(folder / "data.npz", read, 1), batches=[])
    order, drawn = Order(COUNT, BATCH, SEED), np.load(folder / "set.npz")
    found = []
    with connect(load_board("native"), image=image_path(folder / "kept", load_board("native"))) as target:
        for x in (drawn["x"], -drawn["x"], drawn["x"]):
            np.savez(folder / "signed.npz", x=x, y=drawn["y"])
            feed = OverTheLine(read_samples(str(folder / "signed.npz"), read, None).train, order, None)
            trainer = Trainer(target.device, target.meter, read)
            kept = KeptSamples(order, (KeptSet(COUNT, feed.put),))
            steps = trainer.train(data, RATE, steps=3, feed=never, kept_samples=kept)
            assert [step.features.time_s > 0 for step in steps] == [True, False, False]
            found.append([step.loss for step in steps])
    assert found[0] == found[2] != found[1]


def test_what_the_ram_has_no_room_for_lies_on_the_card(folder: Path) -> None:
    read, board = read_plan(folder / "kept"), load_board("native")
    data = replace(read_training_data(folder / "data.npz", read, 1), batches=[])
    order, image = Order(COUNT, BATCH, SEED), image_path(folder / "kept", board)
    found: list[list[float]] = []
    for _ in range(2):
        with connect(board, image=image) as target:
            feed = OverTheLine(read_samples(str(folder / "set.npz"), read, None).train, order, None)
            trainer = Trainer(target.device, target.meter, read)
            target.device.format()
            kept = KeptSamples(order, (KeptSet(COUNT, feed.put),))
            steps = trainer.train(data, RATE, steps=6, feed=never, kept_samples=kept)
            assert [step.features.time_s > 0 for step in steps[1:]] == [bool(found)] * 5
            found.append([step.loss for step in steps])
            assert (trainer.hello.room == 5) == (len(found) == 2)
            least_bytes = trainer.hello.ram_bytes - (trainer.hello.room - 5) * 4 * (64 + 1 + 1)
        reserved_bytes = board.ram_bytes - board.usable_ram_bytes
        board = board.model_copy(update={"ram_bytes": least_bytes + reserved_bytes})
    assert found[0] == found[1]


def test_a_validation_infers_from_kept_features(folder: Path) -> None:
    """As many samples are right as by whole inferences."""
    drawn = np.random.default_rng(5)
    given = np.load(folder / "set.npz")
    x_val = drawn.standard_normal((7, *given["x"].shape[1:])).astype("f4")
    np.savez(folder / "valid.npz", x=given["x"], y=given["y"], x_val=x_val, y_val=drawn.integers(0, 10, 7))
    for name in ("whole", "kept", "tight"):
        result = train(folder, name, "--validate", samples="valid.npz", out=f"valid_{name}")
        assert result.exit_code == 0, result.output
        assert (f"features of {COUNT + 7} samples are computed once" in result.stderr) == (name != "whole")
    whole, kept, tight = (rows(folder, f"valid_{name}") for name in ("whole", "kept", "tight"))
    for table in (kept, tight):
        assert table["right"].tolist() == whole["right"].tolist()
        np.testing.assert_allclose(table["validation_loss"], whole["validation_loss"], rtol=1e-5)
        assert (table["features_time_s"] > 0).tolist() == [True] + [False] * (EPOCHS - 1)


def test_patience_ends_a_training_on_kept_features(folder: Path) -> None:
    given = np.load(folder / "set.npz")
    np.savez(folder / "both.npz", x=given["x"], y=given["y"], x_val=given["x"], y_val=given["y"])
    asked = ("--validate", "--patience", "1", "--min-delta", "1e9")
    result = train(folder, "kept", *asked, samples="both.npz", out="patient")
    assert result.exit_code == 0, result.output
    assert len(rows(folder, "patient")) == 2 < EPOCHS


def test_features_are_made_at_each_use_where_they_are_not_kept(folder: Path) -> None:
    result = train(folder, "kept", "--features", "each-step", out="each")
    assert result.exit_code == 0, result.output
    assert "are computed" not in result.stderr
    assert (rows(folder, "each")["features_time_s"] > 0).all()
    assert load_file(folder / "each.safetensors").keys() == load_file(folder / "kept.safetensors").keys()
    each, kept = (load_file(folder / f"{name}.safetensors") for name in ("each", "kept"))
    assert all(each[name].tobytes() == kept[name].tobytes() for name in kept)


def test_a_sample_that_changes_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "augmented_set.py").write_text(
        "import torch\n"
        "class Noisy(torch.utils.data.Dataset):\n"
        f"    def __len__(self): return {COUNT}\n"
        "    def __getitem__(self, at):\n"
        f"        x = torch.zeros({tuple(models.load(MODEL).inputs[0].shape[1:])})\n"
        "        return (x + torch.rand(()) if at > 0 else x), 1\n"
        "def make(): return Noisy()\n"
    )
    result = train(folder, "kept", samples="augmented_set:make", out="noisy")
    assert result.exception.exit_code == 2
    assert "sample 1 is another one when it is asked for again" in str(result.exception)
    assert str(result.exception).endswith("cannot be kept: give --features each-step")
    assert train(folder, "whole", samples="augmented_set:make", out="noisy_whole").exit_code == 0
    assert train(folder, "kept", "--features", "each-step", samples="augmented_set:make", out="noisy").exit_code == 0


def test_single_steps_make_features_of_each_batch(folder: Path) -> None:
    found = {}
    for name in ("whole", "kept"):
        given = ["run", "--board", "native", "--plan", str(folder / name), "--data", str(folder / "data.npz")]
        trained = folder / f"steps_{name}.safetensors"
        result = CliRunner().invoke(app, [*given, "--steps", "1", "--lr", "0.1", "--trained", str(trained)])
        assert result.exit_code == 0, result.output
        found[name] = load_file(trained)
    assert all(found["kept"][name].tobytes() == tensor.tobytes() for name, tensor in found["whole"].items())


def test_a_plan_without_its_features_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "kept", tmp_path / "kept")
    shutil.copy(folder / "tight" / "features" / "graph.json", tmp_path / "kept" / "features" / "graph.json")
    shutil.copy(folder / "tight" / "features" / "schedule.json", tmp_path / "kept" / "features" / "schedule.json")
    result = CliRunner().invoke(app, ["flash", "--board", "native", "--plan", str(tmp_path / "kept")])
    assert result.exception.exit_code == 2
    assert "features/graph.json: belongs to another plan" in str(result.exception)
