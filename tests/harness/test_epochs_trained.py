# SPDX-License-Identifier: Apache-2.0
"""Epochs trained for real: on the firmware here and on the emulated board, held against PyTorch's own training."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from poet_harness.cli import app
from poet_harness.protocol.device import Device
from poet_harness.training.feeding import Order
from poet_planner import models
from poet_planner.graph.layout import GRADIENTS_RESIDENT, MemoryLayout
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.planning.training_graph import training_step
from poet_planner.report.summary import summarise
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.plan_folder.files import PlanFiles, write_plan
from safetensors import safe_open
from safetensors.numpy import load_file
from sklearn import metrics
from typer.testing import CliRunner

from tests.support import needs
from tests.support.harness.flashed import flash
from tests.support.harness.trained import end_in_step

pytestmark = needs.emulator_and_gcc

MODEL, MOMENTUM, RATE, EPOCHS, SEED = "digits_cnn_small", 0.9, 0.05, 2, 11
DECAY, ADAMS_RATE = 0.1, 0.003
COUNT, BATCH, VALIDATED = 15, 4, 10
BOARDS = {"native": ["--board", "native"], "nrf52840": ["--board", "nrf52840", "--emulate"]}
NAMES = [f"[{digit}], a digit" for digit in range(10)]
SMALL = ["--scale", "1/17", "--shift", "3"]
OPTIONS = ["--epochs", str(EPOCHS), "--shuffle", str(SEED), "--lr", str(RATE), "--schedule", "cosine"]


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A plan that both boards were flashed with, one for AdamW, what they begin with, and samples, as f32 and as u8."""
    root = tmp_path_factory.mktemp("epochs")
    flashed(builds, root, "plan", Optimizer(momentum=MOMENTUM), BOARDS)
    flashed(builds, root, "adamw", Optimizer(Method.ADAMW, weight_decay=DECAY), ["native"])
    flashed(builds, root, "card", Optimizer(momentum=MOMENTUM), ["native"], MemoryLayout(card_above_bytes=64))
    write_arrays(training_data(MODEL, 1, 0, None), root / "data.npz")
    drawn = np.random.default_rng(3)
    x, y = drawn.integers(0, 17, (COUNT, 1, 8, 8), dtype=np.uint8), drawn.integers(0, 10, COUNT)
    normal = (x.astype("f4") - np.float32(3)) * np.float32(1 / 17)
    np.savez(root / "set.npz", x=normal, y=y, x_val=normal[:VALIDATED], y_val=y[:VALIDATED])
    np.savez(root / "small.npz", x=x, y=y, x_val=x[:VALIDATED], y_val=y[:VALIDATED])
    yield root


def flashed(
    builds: Path,
    root: Path,
    name: str,
    optimizer: Optimizer,
    boards: Iterable[str],
    layout: MemoryLayout = GRADIENTS_RESIDENT,
) -> None:
    """A plan with its inference, on those boards."""
    step, plan = training_step(MODEL, None), root / name
    graph = step.graph(load_board("nrf52840"), optimizer, layout)
    lowered = step.inference(graph)
    schedule = store_all_schedule(graph)
    beside = Inference(lowered.graph, store_all_schedule(lowered.graph), lowered.data, lowered.loss, tuple(NAMES))
    summary = summarise(graph, schedule, schedule, inference=beside)
    write_plan(PlanFiles(graph=graph, schedule=schedule, summary=summary, inference=beside), plan)
    write_headers(graph, schedule, plan, {}, beside)
    flash(builds, plan, *(BOARDS[board] for board in boards))


def run(folder: Path, board: str, name: str, *options: str, plan: str = "plan") -> Any:
    given = ["train", *BOARDS[board], "--plan", str(folder / plan), "--data", str(folder / "data.npz"), *OPTIONS]
    given += ["--samples", str(folder / "set.npz"), "--folder", str(folder / name)]
    return CliRunner().invoke(app, [*given, "--trained", str(folder / f"{name}.safetensors"), *options])


def weights(folder: Path, name: str) -> dict[str, np.ndarray]:
    return load_file(folder / f"{name}.safetensors")


def trained_by_pytorch(folder: Path, make: Callable[[Any], torch.optim.Optimizer]) -> dict[str, torch.Tensor]:
    """PyTorch's own training on the same samples in the same order."""
    model, samples = models.load(MODEL), np.load(folder / "set.npz")
    x, y = torch.from_numpy(samples["x"]), torch.from_numpy(samples["y"])
    order = Order(COUNT, BATCH, SEED)
    steps = EPOCHS * (COUNT // BATCH)
    optimizer = make(model.module.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        chosen = torch.from_numpy(order(step))
        optimizer.zero_grad()
        model.loss(model.module(x[chosen]), y[chosen]).backward()
        optimizer.step()
        scheduler.step()
    return model.module.state_dict()


def test_the_boards_train_as_pytorch_does(folder: Path) -> None:
    reference = trained_by_pytorch(folder, lambda parameters: torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM))
    for board in BOARDS:
        result = run(folder, board, board)
        assert result.exit_code == 0, result.output
    host, emulated = (weights(folder, board) for board in BOARDS)
    assert host.keys() == emulated.keys() == reference.keys()
    for name, tensor in reference.items():
        assert emulated[name].tobytes() == host[name].tobytes(), name
        torch.testing.assert_close(torch.from_numpy(emulated[name]), tensor, rtol=1e-5, atol=1e-5, msg=name)
    table = pd.read_csv(folder / "nrf52840" / "epochs.csv")
    assert list(table["epoch"]) == [1, 2]
    assert (table["energy_j"] > 0).all()


def test_a_batch_on_the_card_trains_over_epochs_with_the_bits_of_one_in_ram(folder: Path) -> None:
    """Its samples are sent there, normalised here if they are small."""
    run(folder, "native", "ram")
    for name, options in (("card", ()), ("small", (*SMALL, "--samples", str(folder / "small.npz"), "--validate"))):
        result = run(folder, "native", f"on_{name}", *options, "--card", str(folder / f"{name}.img"), plan="card")
        assert result.exit_code == 0, result.output
        found = weights(folder, f"on_{name}")
        assert {id: one.tobytes() for id, one in found.items()} == {
            id: one.tobytes() for id, one in weights(folder, "ram").items()
        }


@pytest.mark.parametrize("board", BOARDS)
def test_a_rate_that_is_too_high_ends_it_and_the_folder_keeps_its_last_epoch(folder: Path, board: str) -> None:
    name = f"{board}_hot"
    result = run(folder, board, name, "--schedule", "step", "--every", "1", "--factor", "1e38")
    first = 1 + COUNT // BATCH  # the first step of the second epoch makes the weights too large
    assert result.exception.exit_code == 2
    assert f"the loss of step {first + 1} is no number: the rate 5e+36 is too high" in str(result.exception)
    assert str(result.exception).endswith(f"the board has the weights of step {first}")
    kept = np.load(folder / name / "checkpoint.npz")
    assert int(kept["..step"]) == first - 1
    assert all(np.isfinite(kept[id]).all() for id in kept.files if kept[id].dtype.kind == "f")
    assert list(pd.read_csv(folder / name / "epochs.csv")["epoch"]) == [1]
    assert not (folder / f"{name}.safetensors").exists()


def run_until_step_4(folder: Path, board: str, name: str, *options: str, plan: str = "plan") -> None:
    """A signal ends it there, in the middle of the second epoch."""
    with pytest.MonkeyPatch.context() as patch:
        end_in_step(patch, 4)
        result = run(folder, board, name, *options, plan=plan)
    assert "after 4 steps; --resume goes on after step 4" in str(result.exception)


def test_adamw_is_pytorchs_also_if_it_was_cut(folder: Path) -> None:
    reference = trained_by_pytorch(
        folder, lambda parameters: torch.optim.AdamW(parameters, lr=ADAMS_RATE, weight_decay=DECAY)
    )
    rate = ["--lr", str(ADAMS_RATE)]
    run_until_step_4(folder, "native", "adam", *rate, plan="adamw")
    trained = folder / "adam-whole.safetensors"
    result = run(folder, "native", "adam", *rate, "--resume", "--trained", str(trained), plan="adamw")
    assert result.exit_code == 0, result.output
    for name, found in load_file(trained).items():
        torch.testing.assert_close(torch.from_numpy(found), reference[name], rtol=1e-6, atol=1e-6, msg=name)
    with safe_open(folder / "adam-whole.optimizer.safetensors", "numpy") as file:
        assert file.metadata()["optimizer"].startswith("AdamW(")
        assert file.get_tensor("fc.weight.step").item() == EPOCHS * (COUNT // BATCH)


def test_a_training_that_is_cut_in_mid_epoch_ends_with_the_same_bits(folder: Path) -> None:
    assert run(folder, "native", "whole", "--validate").exit_code == 0
    run_until_step_4(folder, "nrf52840", "cut", "--validate")
    options = ["--validate", "--resume", "--trained", str(folder / "rest.safetensors")]
    result = run(folder, "nrf52840", "cut", *options)
    assert result.exit_code == 0, result.output
    expected, found = weights(folder, "whole"), weights(folder, "rest")
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
    same = ["loss", "right", "labels", "validated", "validation_loss"]
    rows, others = (pd.read_csv(folder / name / "epochs.csv")[same] for name in ("whole", "cut"))
    pd.testing.assert_frame_equal(rows, others, check_exact=True)
    best, other = (load_file(folder / name / "best.safetensors") for name in ("whole", "cut"))
    assert all(other[name].tobytes() == best[name].tobytes() for name in best)


def test_what_the_board_knows_is_what_pytorch_knows_with_its_weights(folder: Path) -> None:
    options = ["--validate", "--epochs", "12", "--lr", "0.2", "--schedule", "constant"]
    given = ["--samples", str(folder / "small.npz"), *SMALL]
    result = run(folder, "native", "known", *options, *given)
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(folder / "known" / "epochs.csv")
    assert set(rows["labels"]) == {VALIDATED}
    assert rows["right"].max() > rows["right"].min()
    samples = np.load(folder / "set.npz")

    def scores(path: Path) -> torch.Tensor:
        module = models.load(MODEL).module.eval()
        module.load_state_dict({name: torch.from_numpy(array) for name, array in load_file(path).items()})
        with torch.no_grad():
            return module(torch.from_numpy(samples["x_val"]))

    labels = torch.from_numpy(samples["y_val"])
    last, best = (scores(folder / name) for name in ("known.safetensors", "known/best.safetensors"))
    assert int((last.argmax(1) == labels).sum()) == rows["right"].iloc[-1]
    assert int((best.argmax(1) == labels).sum()) == rows["right"].max()
    loss = float(torch.nn.functional.cross_entropy(last, labels))
    assert rows["validation_loss"].iloc[-1] == pytest.approx(loss, rel=1e-4)
    evaluated(folder, last, labels)
    with safe_open(folder / "known" / "best.safetensors", "numpy") as file:
        assert file.metadata()["step"] == str((rows["right"].idxmax() + 1) * (COUNT // BATCH))


def evaluated(folder: Path, scores: torch.Tensor, labels: torch.Tensor) -> None:
    """What `eval` says of these weights, beside scikit-learn."""
    given = ["eval", *BOARDS["native"], "--plan", str(folder / "plan"), "--samples", str(folder / "small.npz"), *SMALL]
    given += ["--weights", str(folder / "known.safetensors"), "--per-class", "--confusion", str(folder / "c.csv")]
    document = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert document["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(scores, labels)), rel=1e-4)
    wanted, found = labels.numpy(), scores.argmax(1).numpy()
    matrix = pd.read_csv(folder / "c.csv", index_col="label")
    assert [*matrix.index] == [*matrix.columns] == NAMES
    np.testing.assert_array_equal(matrix, metrics.confusion_matrix(wanted, found, labels=range(10)))
    precision, recall, f1, count = metrics.precision_recall_fscore_support(
        wanted, found, labels=range(10), zero_division=np.nan
    )
    table = pd.DataFrame(document["classes"]).astype({"recall": float, "precision": float, "f1": float})
    for name, expected in (("precision", precision), ("recall", recall), ("f1", f1), ("count", count)):
        np.testing.assert_allclose(table[name], expected, err_msg=name)
    shown = CliRunner().invoke(app, given).stdout
    assert NAMES[0] in shown
    assert f"{document['loss']:.4f}" in shown
    refused = CliRunner().invoke(app, [*given, "--save", str(folder / "c.csv")]).exception
    assert "c.csv: is read, or written twice" in str(refused)


@pytest.mark.parametrize("board", BOARDS)
def test_small_integers_give_the_same_bits_over_the_line_and_from_the_card(
    folder: Path, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    ask = Device._ask

    def asked(self: Device, text: str, *arguments: Any, **options: Any) -> Any:
        sent.append(text)
        return ask(self, text, *arguments, **options)

    monkeypatch.setattr(Device, "_ask", asked)
    assert run(folder, "native", f"{board}-f32").exit_code == 0
    characters = [sum(map(len, sent))]
    card = ["--to-card", "--card", str(folder / f"{board}.img")]
    given = ["--samples", str(folder / "small.npz"), *SMALL]
    for name, options in (("u8", []), ("first", card), ("again", card)):
        sent.clear()
        result = run(folder, board, f"{board}-{name}", *given, *options)
        assert result.exit_code == 0, result.output
        characters.append(sum(map(len, sent)))
        assert any(text.startswith("scaled") for text in sent) == (name == "u8")
        assert any(text.startswith("block") for text in sent) == (name == "first")
    assert characters[0] > characters[1] > characters[3]
    # What the card has lost since is sent once more.
    damaged = bytearray((folder / f"{board}.img").read_bytes())
    place = damaged.index(np.load(folder / "small.npz")["x"][7].tobytes())
    damaged[place] ^= 1
    (folder / f"{board}.img").write_bytes(damaged)
    sent.clear()
    assert run(folder, board, f"{board}-mended", *given, *card).exit_code == 0
    assert any(text.startswith("block") for text in sent)
    expected = weights(folder, f"{board}-f32")
    for name in ("u8", "first", "again", "mended"):
        found = weights(folder, f"{board}-{name}")
        assert all(found[id].tobytes() == expected[id].tobytes() for id in expected), name
