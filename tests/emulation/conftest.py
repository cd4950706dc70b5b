# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the emulated boards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from poet_harness.emulation import EmulatedBoard, open_emulated_board
from poet_profiles.boards import load_board

from tests.support.emulation.emulated_board import Line, Opener, build, shared_folder
from tests.support.emulation.paged_step import write_paged_model


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The image of each board."""
    return build(shared_folder(tmp_path_factory) / "pio")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The headers of a training step with a page in it."""
    folder = shared_folder(tmp_path_factory) / "paged_step"
    write_paged_model(folder)
    return folder


@pytest.fixture(scope="session")
def step_images(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The image of each board with that step built in."""
    return build(shared_folder(tmp_path_factory) / "pio_step", POET_MODEL_DIR=str(model))


@pytest.fixture
def open_line(images: dict[str, Path], tmp_path: Path) -> Iterator[Opener]:
    """Opens a board by name; keywords go to `opener`. The card image is ``tmp_path / "NAME.img"``."""
    opened = []

    def open_board(
        name: str, greet: bool = True, opener: Callable[..., EmulatedBoard] = open_emulated_board, **options: object
    ) -> Line:
        emulated = opener(load_board(name), images[name], tmp_path / f"{name}.img", **options)
        emulated.serial.timeout = 60
        opened.append(emulated)
        line = Line(emulated)
        if greet:
            line.values("hello")
        return line

    yield open_board
    for emulated in opened:
        emulated.close()
