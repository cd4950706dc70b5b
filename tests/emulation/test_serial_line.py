# SPDX-License-Identifier: Apache-2.0
"""The serial line of the emulated boards: noise in both directions never makes a wrong answer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from poet_harness.emulation import open_emulated_board
from poet_harness.protocol.link import Link, Patience
from poet_profiles.boards import load_board

from tests.support.emulation.emulated_board import BOARDS

REQUESTS = [f"bench 14 1 1 {size}" for size in range(1, 25)]
IMPATIENT = Patience(acknowledge_s=0.02, answer_s=0.05, attempts=50)


class NoisyLine:
    """Loses, doubles and flips bytes at random, in both directions; repeats with the seed."""

    def __init__(self, lose: float = 0.0, double: float = 0.0, flip: float = 0.0, seed: int = 0) -> None:
        self._lose, self._double, self._flip = lose, double, flip
        self._random = random.Random(seed)

    def host_to_board(self, byte: int) -> bytes:
        if self._random.random() < self._lose:
            return b""
        if self._random.random() < self._flip:
            byte ^= 1 << self._random.randrange(8)
        return bytes([byte, byte]) if self._random.random() < self._double else bytes([byte])

    board_to_host = host_to_board


def answers(image: Path, name: str, card: Path, noise: NoisyLine | None) -> tuple[list[str], int]:
    with open_emulated_board(load_board(name), image, card, faults=noise) as emulated:
        link = Link(emulated.serial, name, IMPATIENT)
        link.request("hello")
        checksums = [link.request(request).values["checksum"] for request in REQUESTS]
        return checksums, link.repeated


@pytest.mark.parametrize("kind", ["lose", "double", "flip"])
@pytest.mark.parametrize("name", BOARDS)
def test_noise_costs_time_but_no_answer(images: dict[str, Path], tmp_path: Path, name: str, kind: str) -> None:
    clean, _ = answers(images[name], name, tmp_path / "clean.img", None)
    noisy, repeated = answers(images[name], name, tmp_path / "noisy.img", NoisyLine(**{kind: 0.005}, seed=4))
    assert noisy == clean
    assert repeated > 0


@pytest.mark.parametrize("name", BOARDS)
def test_a_byte_takes_its_time_on_the_line(images: dict[str, Path], tmp_path: Path, name: str) -> None:
    board = load_board(name)
    with open_emulated_board(board, images[name], tmp_path / "card.img") as emulated:
        link = Link(emulated.serial, name)
        link.request("hello")
        before_s = emulated.time_s
        answer = link.request("stack")
        characters = len(">0000 stack*0000\n") + len("<0000 ack*0000\n") + len("<0000 ok bytes=*0000\n")
        characters += len(answer.values["bytes"])
        # Ten bits a character; the firmware's own work between them is small.
        line_s = 10 * characters / board.baud
        assert line_s * 0.98 <= emulated.time_s - before_s < line_s * 1.3 + 0.001
