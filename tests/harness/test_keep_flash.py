# SPDX-License-Identifier: Apache-2.0
"""A training goes on from the chip's own flash, without a card."""

from __future__ import annotations

from pathlib import Path

import pytest
from poet_harness.cli import app as harness
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import FLASH, built
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support.emulation.emulated_board import Line
from tests.support.harness.flashed import called
from tests.support.harness.tiny_plan import HASH, SCHEDULE_HASH, write_plan
from tests.support.programs import poet_plan

MODEL = ["--model", "digits_cnn_small", "--batch", "4", "--profile", "nrf52840"]
BOARD = ["--board", "nrf52840", "--emulate"]


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(harness, ["flash", *map(str, arguments)], env={"COLUMNS": "200"})
    assert isinstance(done.exception, UserError)
    return str(done.exception)


def test_a_training_goes_on_from_the_chips_own_flash(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
    plan, card = tmp_path / "plan", tmp_path / "card.img"
    assert poet_plan(*MODEL, "--method", "store_all", "--out", str(plan)) == 0
    assert (
        poet_plan(
            "data", "--model", "digits_cnn_small", "--batch", "4", "--steps", "3", "--out", str(tmp_path / "d.npz")
        )
        == 0
    )
    called(harness, "flash", *BOARD, "--plan", plan, "--keep", "flash")
    given = ["run", *BOARD, "--plan", plan, "--data", tmp_path / "d.npz", "--commit-every", "1"]
    called(harness, *given, "--steps", "3", "--trained", tmp_path / "whole.safetensors")
    called(harness, *given, "--steps", "2", "--card", card)
    with open_emulated_board(load_board("nrf52840"), plan / "nrf52840.elf", card) as emulated:
        emulated.card.faults.removed = True
        line = Line(emulated)
        line.greet()
        assert line.values("restore")["step"] == "2"
        assert line.ask("set 4096").startswith("err -1 not after"), "a data set lies on a card"
        assert emulated.card.blocks_written == 0
    called(harness, *given, "--steps", "3", "--card", card, "--resume", "--trained", tmp_path / "resumed.safetensors")
    whole, resumed = load_file(tmp_path / "whole.safetensors"), load_file(tmp_path / "resumed.safetensors")
    assert {name: part.tobytes() for name, part in whole.items()} == {
        name: part.tobytes() for name, part in resumed.items()
    }


def test_what_flash_is_not_for_is_refused(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan")
    (plan / "poet_model.h").write_text(f"    .graph_hash = UINT64_C(0x{HASH}),\n")
    (plan / "poet_schedule.h").write_text(
        f"    .graph_hash = UINT64_C(0x{HASH}),\n    .hash = UINT64_C(0x{SCHEDULE_HASH}),\n"
    )
    assert "there are card, flash" in refused(*BOARD, "--plan", plan, "--keep", "ram")
    assert "has tensors on the card, which flash is not for" in refused(*BOARD, "--plan", plan, "--keep", "flash")
    with (
        pytest.raises(UserError, match="no driver for the flash of nucleo-f411re"),
        built(load_board("nucleo-f411re"), keep=FLASH),
    ):
        pass
