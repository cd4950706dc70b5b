# SPDX-License-Identifier: Apache-2.0
"""Every kernel on both emulated boards and on this machine: hard float, soft float and x86 agree to the bit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from poet_harness.emulation import open_emulated_board
from poet_harness.profiling.grid import TRANSFERS
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import OPERATORS

from tests.support import ROOT
from tests.support.emulation.emulated_board import BOARDS, Line
from tests.support.firmware.operator_shapes import CONFIGURATIONS
from tests.support.levels import examples


class Program:
    """The same firmware as a program of this machine, on its standard streams."""

    def __init__(self, program: Path, card: Path) -> None:
        self.process = subprocess.Popen(
            [str(program), "--card", str(card)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.serial = self

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, _size: int) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def devices(images: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Line]]:
    """Both boards and the host, all greeted."""
    folder = tmp_path_factory.mktemp("kernels")
    sources = [*(ROOT / "firmware/src").rglob("*.c"), *(ROOT / "firmware/boards/host").rglob("*.c")]
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-DPOET_NO_MODEL", '-DPOET_FIRMWARE_ID="test"']
    include = ["-I", str(ROOT / "firmware/include"), "-I", str(ROOT / "firmware/src")]
    subprocess.run(["gcc", *flags, *include, *map(str, sources), "-lm", "-o", str(folder / "poet")], check=True)
    open_ones = [Program(folder / "poet", folder / "host.img")]
    lines = [Line(open_ones[0])]  # type: ignore[arg-type]
    for name in BOARDS:
        emulated = open_emulated_board(load_board(name), images[name], folder / f"{name}.img")
        emulated.serial.timeout = 60
        open_ones.append(emulated)  # type: ignore[arg-type]
        lines.append(Line(emulated))
    for line in lines:
        line.values("hello")
        line.values("format")
    yield lines
    for device in open_ones:
        device.close()


@pytest.mark.parametrize("operator", sorted(CONFIGURATIONS.keys() - set(TRANSFERS)))
def test_a_kernel_gives_the_same_bits_everywhere(devices: list[Line], operator: str) -> None:
    entry = OPERATORS[operator]

    @settings(max_examples=examples(5), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        params = data.draw(CONFIGURATIONS[operator])
        request = " ".join(str(word) for word in ("bench", entry.code, 1, *entry.values(params)))
        answers = [line.ask(request) for line in devices]
        assume(not answers[-1].startswith("err -2"))  # too large for 32 KB
        assert all(answer.startswith("ok") for answer in answers), (request, answers)
        sums = {answer.split("checksum=")[1] for answer in answers}
        assert len(sums) == 1, (request, answers)

    check()
