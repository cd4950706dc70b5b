# SPDX-License-Identifier: Apache-2.0
"""QEMU's LM3S6965 board: a CPU, a serial port and an SD card that nobody here wrote."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

BOARD = ROOT / "tests" / "support" / "emulation" / "qemu"
FLAGS = {
    "cortex-m4": ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "cortex-m0": ["-mcpu=cortex-m0", "-mfloat-abi=soft"],
}
WARNINGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-Wconversion"]


def need_qemu() -> None:
    """Skip where it is missing."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")


def compile_image(output: Path, cpu: str, sources: list[Path], script: str, *flags: str) -> Path:
    """Build an image for one of QEMU's boards."""
    include = ["-I", str(ROOT / "firmware/include"), "-I", str(ROOT / "firmware/boards/cortex_m")]
    link = ["-nostartfiles", "-T", str(BOARD / script), "-Wl,--gc-sections"]
    common = [*WARNINGS, "-ffunction-sections", "-fdata-sections", "-ffp-contract=off", "-fno-math-errno", "-mthumb"]
    command = ["arm-none-eabi-gcc", *common, *FLAGS[cpu], *include, *flags, *map(str, sources), *link]
    done = subprocess.run([*command, "-o", str(output)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


class QemuMachine:
    """A running board, with the part of a serial port's interface that the tests use."""

    def __init__(self, machine: str, cpu: str | None, image: Path, *options: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        command = ["qemu-system-arm", "-M", machine, "-display", "none", "-monitor", "none", "-kernel", str(image)]
        if cpu is not None:
            command += ["-cpu", cpu]
        command += ["-chardev", f"socket,id=line,host=127.0.0.1,port={port}", "-serial", "chardev:line", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        listener.settimeout(20)
        self.connection, _ = listener.accept()
        listener.close()
        self.serial = self
        self.timeout = 20.0

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)

    def read(self, size: int) -> bytes:
        self.connection.settimeout(self.timeout)
        try:
            return self.connection.recv(size)
        except TimeoutError:
            return b""

    def close(self) -> None:
        """A guest that polls burns a processor: never leave one behind."""
        self.connection.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
