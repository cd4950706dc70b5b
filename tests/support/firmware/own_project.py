# SPDX-License-Identifier: Apache-2.0
"""A PlatformIO project outside the clone, built with poet; what its program says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from poet_harness.emulation import EmulatedBoard

from tests.support import ROOT


def built(folder: Path, *networks: str, board: str = "nrf52840") -> Path:
    """The image of the sources and the networks' libraries in a folder."""
    libraries = "\n".join(f"    symlink://libraries/{name}" for name in networks)
    (folder / "platformio.ini").write_text(f"""\
[platformio]
core_dir = pio-core
[env:{board}]
platform = symlink://{ROOT}/firmware/platforms/baremetal
board = {board}
lib_compat_mode = off
lib_deps =
    symlink://{ROOT}/firmware
    symlink://{ROOT}/firmware/boards
{libraries}
build_flags = -Wall -Wextra -Wconversion -Werror
""")
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLATFORMIO")}
    command = [sys.executable, "-m", "platformio", "run"]
    run = subprocess.run(command, cwd=folder, env={**environment, **quiet}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / ".pio/build" / board / "firmware.elf"


def words(content: bytes) -> str:
    """An initialiser in C."""
    return "{" + ", ".join(map(str, content)) + "}"


def said_by(emulated: EmulatedBoard) -> dict[str, int]:
    """What the program says until its end: a word and a number a line."""
    said, rest = {}, b""
    emulated.serial.timeout = 300
    while "end" not in said:
        received = emulated.serial.read(256)
        assert received, f"the program says nothing more than {said}"
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            word, number = line.split()
            said[word.decode()] = int(number, 16)
    return said
