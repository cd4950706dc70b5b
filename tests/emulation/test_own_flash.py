# SPDX-License-Identifier: Apache-2.0
"""Commits in the own flash of emulated boards survive power cuts anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from poet_harness.emulation import EmulatedBoard, open_emulated_board
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support import ROOT
from tests.support.firmware.flash import TEARS
from tests.support.firmware.own_project import built

ABSENT, OK = (1 << 32) - 9, 0
# Blocks: five pages of 4 KB, and what two commits and a label take in units of 512 bytes.
PLACES = {"nrf52840": 40, "mkr1000": 26}
ERASES = {"nrf52840": 2, "mkr1000": 24}
# Between the cuts of two of the 1,300 programs of words, or of the 82 of pages. 1: all of them.
EVERY = {"nrf52840": 97, "mkr1000": 7}


class Keeper:
    """The program of flash_keeper.c on a board."""

    def __init__(self, emulated: EmulatedBoard) -> None:
        assert emulated.chip.flash is not None
        self.emulated, self.flash = emulated, emulated.chip.flash
        emulated.serial.timeout = 60

    def heard(self) -> tuple[str, int]:
        line = b""
        while not line.endswith(b"\n"):
            received = self.emulated.serial.read(1)
            assert received, line
            line += received
        return line[:1].decode(), int(line[1:], 16)

    def told(self, what: bytes) -> tuple[str, int]:
        self.emulated.serial.write(what)
        return self.heard()


@pytest.fixture(scope="module", params=PLACES)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("keeper")
    (folder / "src").mkdir()
    text = (ROOT / "tests/support/firmware/flash_keeper.c").read_text()
    (folder / "src/main.c").write_text(f"#define FLASH_BLOCKS {PLACES[request.param]}u\n{text}")
    return request.param, built(folder, board=request.param)


@pytest.fixture
def keeper(image: tuple[str, Path], tmp_path: Path) -> Iterator[Keeper]:
    name, elf = image
    with open_emulated_board(load_board(name), elf, tmp_path / "card.img") as emulated:
        yield Keeper(emulated)


def test_a_cut_anywhere_leaves_the_old_commit_or_the_new_one(keeper: Keeper, image: tuple[str, Path]) -> None:
    flash, kept = keeper.flash, 2
    assert [keeper.heard(), keeper.told(b"c"), keeper.told(b"c")] == [("r", ABSENT), ("c", OK), ("c", OK)]
    before, erased = flash.operations, sum(flash.erases.values())
    assert keeper.told(b"c") == ("c", OK)
    operations, kept = flash.operations - before, 3
    assert sum(flash.erases.values()) - erased == ERASES[image[0]]
    one_by_one = 16 + ERASES[image[0]]  # erases and headers
    cuts = {*range(one_by_one), *range(0, operations, EVERY[image[0]]), *range(operations - one_by_one, operations)}
    for place, cut in enumerate(sorted(cuts)):
        for torn in TEARS if EVERY[image[0]] == 1 else [TEARS[place % len(TEARS)]]:
            flash.cut_at, flash.torn = flash.operations + cut, torn
            word, found = keeper.told(b"c")
            if word == "c":  # the last commit was confirmed when it was restored: there is less to do
                flash.cut_at, kept = None, kept + 1
                continue
            assert found in ((kept, kept + 1) if torn == "whole" else (kept,)), (cut, torn)
            assert keeper.told(b"c") == ("c", OK)
            kept = found + 1


def test_units_wear_alike_and_no_card_is_asked_for(keeper: Keeper) -> None:
    assert keeper.heard() == ("r", ABSENT)
    keeper.flash.erases.clear()
    for _ in range(9):
        assert keeper.told(b"c") == ("c", OK)
        assert max(keeper.flash.erases.values()) - min(keeper.flash.erases.values()) <= 1
    assert keeper.emulated.card.blocks_written == 0
    keeper.emulated.cut_power()
    assert keeper.heard() == ("r", 9)


@pytest.mark.parametrize(("told", "words"), [(b"t", "is programmed and was not erased"), (b"s", "write-protected")])
def test_what_no_flash_bears_ends_the_emulation(
    keeper: Keeper, image: tuple[str, Path], told: bytes, words: str
) -> None:
    if image[0] == "mkr1000" and told == b"s":
        return  # it fills the buffer of a page
    assert keeper.heard() == ("r", ABSENT)
    with pytest.raises(UserError, match=words):
        keeper.told(told)
