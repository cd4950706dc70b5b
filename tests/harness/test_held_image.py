# SPDX-License-Identifier: Apache-2.0
"""Two programs and one card image: who writes has it alone, who reads shares it, and nothing empty is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from poet_harness.card.contents import card_contents
from poet_harness.card.image import prepared_image
from poet_harness.card.places import card_place
from poet_harness.card.writing import write_card
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_harness.target.connect import connect
from poet_harness.target.held_image import held_image
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from typer.testing import CliRunner

from tests.support.harness.kept_plan import write_kept_plan

ANOTHER = """
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_SH if sys.argv[2] == "read" else fcntl.LOCK_EX)
print("has it", flush=True)
sys.stdin.readline()
"""


@contextmanager
def another_has(image: Path, how: str) -> Iterator[None]:
    """Another program reads, or writes, the image meanwhile."""
    with Popen([sys.executable, "-c", ANOTHER, str(image), how], stdin=PIPE, stdout=PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "has it\n"
        try:
            yield
        finally:
            program.communicate("\n")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_kept_plan(tmp_path / "plan")


@pytest.fixture
def image(plan: Path, tmp_path: Path) -> Path:
    place = card_place(tmp_path / "card.img")
    write_card(place, card_contents(plan / "data.npz", read_plan(plan), None, None), None, lambda *_: None)
    return place.path


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_board_here_gets_no_card_that_another_has(image: Path, tmp_path: Path, how: str) -> None:
    before = image.read_bytes()
    with another_has(image, how), pytest.raises(UserError, match=r"card\.img: another poet-harness run has this card"):
        connect(load_board("native"), image=tmp_path / "native.program", card=image)
    assert image.read_bytes() == before


def test_a_card_that_another_reads_is_read_and_not_written(plan: Path, image: Path) -> None:
    before = image.read_bytes()
    read = ["card", str(image), "--plan", str(plan), "--read"]
    write = ["card", str(image), "--plan", str(plan), "--data", str(plan / "data.npz"), "--yes"]
    weights = ["weights", "--card", str(image), "--plan", str(plan), "--out", str(plan / "w.safetensors")]
    for how, arguments, is_done in (
        *(("read", read, True), ("read", weights, True), ("read", write, False)),
        *(("write", read, False), ("write", weights, False), ("write", write, False)),
    ):
        with another_has(image, how):
            result = CliRunner().invoke(app, arguments)
        assert (result.exit_code == 0) is is_done, (how, arguments, result.exception)
        assert is_done or "another poet-harness run has this card" in str(result.exception)
    assert image.read_bytes() == before
    data = read_training_data(plan / "data.npz", read_plan(plan), None)
    with another_has(image, "write"), pytest.raises(UserError, match="another poet-harness run has this card"):
        prepared_image(image, read_plan(plan), data, 1).__enter__()


def test_an_image_that_was_made_meanwhile_is_not_overwritten(plan: Path, image: Path, tmp_path: Path) -> None:
    missing = card_place(tmp_path / "new.img")
    image.rename(missing.path)
    contents = card_contents(plan / "data.npz", read_plan(plan), None, None)
    with pytest.raises(UserError, match="made this card meanwhile"):
        write_card(missing, contents, None, lambda *_: None)


def test_of_an_image_nothing_empty_is_left(tmp_path: Path) -> None:
    with held_image(tmp_path / "new.img"):
        pass
    assert not (tmp_path / "new.img").exists()
    with held_image(tmp_path / "new.img"):
        (tmp_path / "new.img").write_bytes(b"card")
    assert (tmp_path / "new.img").read_bytes() == b"card"
    (tmp_path / "empty.img").touch()
    with held_image(tmp_path / "empty.img"):
        pass
    assert (tmp_path / "empty.img").exists(), "it was there before"
    with pytest.raises(UserError, match="cannot use it as a card image"), held_image(tmp_path / "no" / "card.img"):
        pass
    with held_image(Path(os.devnull)):  # as a device would be: the system's
        pass
