# SPDX-License-Identifier: Apache-2.0
"""Building and uploading the firmware with PlatformIO."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.files.locks import held

from .shipped_project import unpacked_project
from .upload_tools import choose, upload_image

QUIET_PLATFORMIO = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
# What the linker script says of it (firmware/boards/cortex_m/sections.ld).
TOO_LARGE = "the plan needs more RAM than the board has beside the firmware"
CARD, FLASH = "card", "flash"
HEADERS = ("poet_model.h", "poet_schedule.h")


def find_project(start: Path | None = None) -> Path:
    """The folder that holds the firmware: at or above ``start`` (the current folder), else what came with poet."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "platformio.ini").is_file() and (folder / "firmware" / "include" / "poet").is_dir():
            return folder
    shipped = unpacked_project()
    if shipped is None:
        raise UserError(f"{here}: no firmware sources here or above, nor in this installation; install poet anew")
    return shipped


def build(board: Board, model_dir: Path | None = None) -> Path:
    """Build the firmware as :func:`built` does, and return the image, which the next build replaces."""
    with built(board, model_dir) as image:
        return image


@contextmanager
def built(board: Board, model_dir: Path | None = None, keep: str = CARD) -> Iterator[Path]:
    """Build the firmware, with the headers in ``model_dir`` if given; no other build replaces the image meanwhile.

    Parameters
    ----------
    keep : {"card", "flash"}
        Where it commits weights.

    Raises
    ------
    UserError
        If the headers are missing, the chip's flash has no driver, or the build fails; the compiler's words are on
        standard error.
    """
    project = find_project()
    if keep == FLASH and not (project / "firmware" / "boards" / str(board.chip) / "flash.c").is_file():
        raise UserError(f"--keep flash: poet has no driver for the flash of {board.name}; leave it out")
    builds = Path(os.environ.get("PLATFORMIO_BUILD_DIR", project / ".pio" / "build"))
    # PlatformIO removes ``builds`` itself at times.
    builds.parent.mkdir(parents=True, exist_ok=True)
    with held(builds.parent, "another build goes on there", wait=True):
        _platformio(board, project, model_dir, keep)
        yield builds / _environment(board) / ("firmware.elf" if board.kind == "microcontroller" else "poet")


def upload(board: Board, model_dir: Path | None, port: str | None, keep: str = CARD) -> None:
    """Build as :func:`build` does, and upload with the best of the board's tools that is here.

    Parameters
    ----------
    port : str or None
        Of the board's bootloader, where it has one.
    """
    choose(board)  # before minutes are spent on the build
    with built(board, model_dir, keep) as image:
        upload_image(board, image, port)


def _environment(board: Board) -> str:
    if board.platformio_env is None:
        raise UserError(f"{board.name}: runs no firmware of ours (its board file has no platformio_env)")
    return board.platformio_env


def _platformio(board: Board, project: Path, model_dir: Path | None, keep: str) -> None:
    environment = {**os.environ, **QUIET_PLATFORMIO, "POET_KEEP": keep}
    environment.setdefault("PLATFORMIO_CORE_DIR", str(project / ".pio-core"))
    environment.pop("POET_MODEL_DIR", None)
    environment.pop("POET_BOARD", None)
    if board.chip is not None:
        environment["POET_BOARD"] = board.model_dump_json()  # the file may be the user's own
    if model_dir is not None:
        for header in HEADERS:
            if not (model_dir / header).is_file():
                raise UserError(f"{model_dir / header}: is missing; make the plan with poet-plan --out {model_dir}")
        environment["POET_MODEL_DIR"] = str(model_dir.resolve())
    command = [sys.executable, "-P", "-m", "platformio", "run", "-s", "-d", str(project), "-e", _environment(board)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        if TOO_LARGE in done.stdout + done.stderr:
            raise UserError(f"{board.name}: {TOO_LARGE} and its tables; plan again, without --ram or with less")
        sys.stderr.write(done.stdout + done.stderr)
        raise UserError(f"building for {board.name} failed; PlatformIO's words are above")
