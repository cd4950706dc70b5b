# SPDX-License-Identifier: Apache-2.0
"""Training that comes to a loss or a weight that is no number: what is said, and what is left as it was."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from poet_harness.cli import app
from typer.testing import CliRunner

from tests.support.harness.kept_plan import KeptDevice, kept_board, write_kept_plan
from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import BATCHES, board, write_plan

STEPS_AN_EPOCH = 2
RATE = 0.25


@dataclass
class Board(SimulatedDevice):
    """Its loss is no number in step ``bad_loss``, counted from 1, nor are its weights after step ``bad_weights``."""

    bad_loss: int = 0
    bad_weights: int = 0
    older: bool = False

    def _step(self, rate: str, trace: str) -> str:
        before = bytes(self.residents[0])
        answer = super()._step(rate, trace)
        if self.steps == self.bad_loss and self.older:
            return answer[: answer.index("loss=")] + "loss=7fc00000"
        if self.steps == self.bad_loss:
            self.residents[0][:] = before
            return "err -12 call 3: the loss is infinite or no number"
        if self.steps == self.bad_weights:
            self.residents[0][:] = struct.pack("<2f", np.inf, 1)
        return answer

    def _commit(self, step: str) -> str:
        finite = np.isfinite(np.frombuffer(self.residents[0], "<f4")).all()
        return super()._commit(step) if finite else "err -12 a weight is infinite or no number"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = write_plan(tmp_path / "plan")
    np.savez(plan / "set.npz", x=np.arange(2 * STEPS_AN_EPOCH, dtype=np.float32))
    return plan


def run(folder: Path, device: SimulatedDevice, *more: str) -> Any:
    verb = "train" if "--samples" in more else "run"
    given = [verb, "--board", "nrf52840", "--meter", "nominal", "--plan", str(folder), "--lr", str(RATE)]
    given += ["--data", str(folder / "data.npz")]
    with serve(device) as url:
        return CliRunner().invoke(app, [*given, "--port", url, *more])


def steps(folder: Path, *more: str) -> list[str]:
    trained, out = folder / "trained.safetensors", folder / "seen.csv"
    return ["--steps", str(len(BATCHES)), "--trained", str(trained), "--out", str(out), *more]


def epochs(folder: Path) -> list[str]:
    trained, kept = folder / "trained.safetensors", folder / "kept"
    return ["--samples", str(folder / "set.npz"), "--epochs", "3", "--folder", str(kept), "--trained", str(trained)]


def message(result: Any) -> str:
    assert result.exception.exit_code == 2
    return str(result.exception)


def test_the_step_the_cause_and_what_the_board_has_are_told(folder: Path) -> None:
    result = run(folder, board(Board, bad_loss=3), *steps(folder))
    assert "the loss of step 3 is no number: the rate 0.25 is too high, or a sample is damaged" in message(result)
    assert f"(the largest input so far is {BATCHES[2].max():g}, in step 3)" in message(result)
    assert message(result).endswith("; the board has the weights of step 2")
    assert not (folder / "trained.safetensors").exists()
    seen = pd.read_csv(folder / "seen.csv")
    assert (seen["do"] == "step").sum() == 2


def test_the_batch_that_made_the_weights_is_named(folder: Path) -> None:
    arrays = dict(np.load(folder / "data.npz"))
    arrays["input"][1, 0] = -3e38
    np.savez(folder / "data.npz", **arrays)
    words = message(run(folder, board(Board, bad_loss=3), *steps(folder)))
    assert "or a sample is damaged (the largest input so far is 3e+38, in step 2); the board" in words


@pytest.mark.parametrize(("bad", "options"), [(1, []), (3, ["--lr", "0"])])
def test_a_rate_that_has_changed_nothing_is_not_blamed(folder: Path, bad: int, options: list[str]) -> None:
    words = message(run(folder, board(Board, bad_loss=bad), *steps(folder, *options)))
    assert "no number, before any weight has changed: samples or weights are damaged" in words
    assert "rate" not in words.replace("weights", "")


def test_the_rate_is_that_of_the_step_before(folder: Path) -> None:
    given = [*epochs(folder), "--schedule", "step", "--every", "1"]
    words = message(run(folder, board(Board, bad_loss=1 + STEPS_AN_EPOCH), *given))
    assert f"the loss of step {1 + STEPS_AN_EPOCH} is no number: the rate {RATE:g} is too high" in words


@pytest.mark.parametrize("fault", ["bad_loss", "bad_weights"])
@pytest.mark.parametrize("when", [STEPS_AN_EPOCH + 2, STEPS_AN_EPOCH + 1])
def test_a_folder_keeps_its_last_epoch(folder: Path, fault: str, when: int) -> None:
    result = run(folder, board(Board, **{fault: when}), *epochs(folder))
    words = message(result)
    where = f"the loss of step {when}" if fault == "bad_loss" else f"the weights of step {2 * STEPS_AN_EPOCH} have "
    assert where in words
    kept = np.load(folder / "kept" / "checkpoint.npz")
    assert int(kept["..step"]) == STEPS_AN_EPOCH
    assert kept["w"].tolist() == [1 + RATE * STEPS_AN_EPOCH, 2 + RATE * STEPS_AN_EPOCH]
    assert list(pd.read_csv(folder / "kept" / "epochs.csv")["epoch"]) == [1]
    assert not (folder / "trained.safetensors").exists()
    healthy = run(folder, board(Board), *epochs(folder), "--resume")
    assert healthy.exit_code == 0, healthy.output


def test_weights_that_overflow_in_the_last_step_are_not_written(folder: Path) -> None:
    result = run(folder, board(Board, bad_weights=len(BATCHES)), *steps(folder))
    assert f"the weights of step {len(BATCHES)} have 1 values that are no numbers: the rate 0.25" in message(result)
    assert not (folder / "trained.safetensors").exists()


def test_a_commit_that_the_board_refuses_ends_the_training(folder: Path) -> None:
    device = board(Board, bad_weights=3)
    words = message(run(folder, device, *steps(folder, "--commit-every", "1")))
    assert "the weights of step 3 have values that are no numbers" in words
    assert words.endswith("; the card has those of step 2")
    assert device.committed == (2, struct.pack("<2f", 1.5, 2.5))


def test_firmware_that_trains_on_is_told(folder: Path) -> None:
    words = message(run(folder, board(Board, bad_loss=2, older=True), *steps(folder)))
    assert "the loss of step 2 is no number" in words and words.endswith("flash it again")
    assert not (folder / "trained.safetensors").exists()


@dataclass
class Card(KeptDevice):
    """A weight overflows on the card in the second step."""

    def _step(self, rate: str, trace: str) -> str:
        if self.record is not None and self.record[0] == 1:
            return "err -12 call 6: a weight is infinite or no number"
        return super()._step(rate, trace)


def test_weights_on_the_card_are_those_of_the_step_before(tmp_path: Path) -> None:
    folder = write_kept_plan(tmp_path / "plan")
    device = kept_board(folder)
    device.__class__ = Card
    words = message(run(folder, device, "--steps", "3", "--trained", str(tmp_path / "trained.safetensors")))
    assert "a weight of step 2 is no number: the rate 0.25 is too high" in words
    assert words.endswith("the board has the weights of step 1")
    assert device.record is not None and device.record[0] == 1
    assert not (tmp_path / "trained.safetensors").exists()
