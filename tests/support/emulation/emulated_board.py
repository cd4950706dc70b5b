# SPDX-License-Identifier: Apache-2.0
"""Both images as PlatformIO builds them, and a line to talk to a board."""

from __future__ import annotations

import binascii
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from poet_harness.emulation import EmulatedBoard

from tests.support import ROOT

BOARDS = ("nrf52840", "mkr1000")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of a parallel test run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def build(folder: Path, **environment: str) -> dict[str, Path]:
    """Both boards' images, built with PlatformIO in a folder that other test processes may share."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    command = [sys.executable, "-m", "platformio", "run", *(word for board in BOARDS for word in ("-e", board))]
    # Beside the folder: PlatformIO removes a build folder that it does not know, lock and all.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            run = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, **quiet, "PLATFORMIO_BUILD_DIR": str(folder), **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 0, run.stdout + run.stderr
            done.touch()
    return {board: folder / board / "firmware.elf" for board in BOARDS}


@dataclass
class Line:
    """Says one thing and waits for the answer."""

    emulated: EmulatedBoard
    sequence: int = 0
    rest: bytes = b""

    def line(self) -> str:
        while b"\n" not in self.rest:
            received = self.emulated.serial.read(256)
            if not received:
                raise TimeoutError("the board says nothing")
            self.rest += received
        line, self.rest = self.rest.split(b"\n", 1)
        text, check = line.decode().rsplit("*", 1)
        assert int(check, 16) == binascii.crc_hqx(text.encode(), 0xFFFF)
        return text

    def greet(self) -> None:
        """Says hello until it is answered: what comes before a machine's serial line is set up is lost."""
        for _ in range(60):
            try:
                self.ask("hello", patience_s=1.0)
                return
            except TimeoutError:
                self.rest = b""
        raise TimeoutError("the board never answered hello")

    def ask(self, request: str, patience_s: float = 60.0) -> str:
        """The answer's words after ``ok`` or ``err``, with that word. A board that starts anew never answers."""
        self.emulated.serial.timeout = patience_s
        body = f">{self.sequence:04x} {request}"
        self.emulated.serial.write(f"{body}*{binascii.crc_hqx(body.encode(), 0xFFFF):04x}\n".encode())
        head = f"<{self.sequence:04x} "
        self.sequence += 1
        while True:
            text = self.line()
            if text.startswith((head + "ok", head + "err")):
                return text[len(head) :]

    def values(self, request: str) -> dict[str, str]:
        """The answer's keys and values; anything but ``ok`` fails the test."""
        answer = self.ask(request)
        assert answer.startswith("ok"), answer
        return dict(word.split("=", 1) for word in answer.split()[1:])


Opener = Callable[..., Line]
