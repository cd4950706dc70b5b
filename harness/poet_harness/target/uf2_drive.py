# SPDX-License-Identifier: Apache-2.0
"""Bootloaders that look like a drive: which drive is the board's, and copying an image to it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

# Where desktops mount drives.
MOUNTS = ("/media/*/*", "/media/*", "/run/media/*/*", "/Volumes/*")
INFO = "INFO_UF2.TXT"


def drives(board: Board) -> list[Path]:
    """The mounted drives whose INFO_UF2.TXT names the board."""
    assert board.upload.uf2 is not None
    wanted = board.upload.uf2.board_ids
    return [drive for drive in _mounted() if _info(drive).get("Board-ID", "").startswith(wanted)]


def check_softdevice(board: Board, drive: Path) -> None:
    """The image begins after what lies in the flash already: with something else there it would never start."""
    assert board.upload.uf2 is not None and board.image is not None
    wanted = board.upload.uf2.softdevice
    there = _info(drive).get("SoftDevice", "not found").replace("version ", "")
    if not there.startswith(wanted):
        raise UserError(
            f"{drive / INFO}: the SoftDevice there is {there!r}, and {board.name}'s image begins at "
            f"0x{board.image.flash_begin:x}, after {wanted!r}: it would not start; copy the board's file, change "
            "[image] and upload.uf2.softdevice, and name the copy with --board"
        )


def copy_image(image: Path, drive: Path) -> None:
    """Copy a UF2 file.

    The board restarts as soon as it has the last block. The drive may then be gone before the computer has closed the
    file; whether the upload took, the firmware itself says.

    Raises
    ------
    UserError
        With exit code 4, if the drive does not take it.
    """
    try:
        content = memoryview(image.read_bytes())
        file = os.open(drive / image.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        while content:
            content = content[os.write(file, content) :]
    except OSError as error:
        raise UserError(f"{drive}: {image.name} cannot be copied to it: {error.strerror}", NO_DEVICE) from None
    with suppress(OSError):
        os.fsync(file)
    with suppress(OSError):
        os.close(file)


def _mounted() -> list[Path]:
    found = {drive for pattern in MOUNTS for drive in Path("/").glob(pattern.lstrip("/"))}
    return sorted(drive for drive in found if (drive / INFO).is_file())


def _info(drive: Path) -> dict[str, str]:
    """The lines of INFO_UF2.TXT that are ``key: value``."""
    try:
        lines = (drive / INFO).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}
