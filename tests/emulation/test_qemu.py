# SPDX-License-Identifier: Apache-2.0
"""A second opinion: storage driver and runner on QEMU's own SD card, nRF UART and timer drivers on its micro:bit."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board

from tests.support import ROOT
from tests.support.emulation.emulated_board import Line
from tests.support.emulation.paged_step import GRADIENT, W, expected, get, put_all, random_data, step
from tests.support.emulation.qemu_machine import BOARD, QemuMachine, compile_image, need_qemu

BLOCK = 512
MEGABYTE = 1024 * 1024
# QEMU takes a card of more than 2 GB for an SDHC card.
CARDS = {"sdsc": 64 * MEGABYTE, "sdhc": 4096 * MEGABYTE}
Opener = Callable[[str, str], tuple[Line, Path]]


@pytest.fixture(scope="module")
def firmware(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The whole firmware with the paged step, for both cores."""
    need_qemu()
    folder = tmp_path_factory.mktemp("qemu")
    sources = [
        *(ROOT / "firmware/src").rglob("*.c"),
        *(path for path in (ROOT / "firmware/boards/cortex_m").glob("*.c") if path.stem != "board"),
        BOARD / "lm3s6965.c",
    ]
    flags = ["-I", str(ROOT / "firmware/src"), "-I", str(model), '-DPOET_FIRMWARE_ID="qemu"']
    return {
        cpu: compile_image(folder / f"{cpu}.elf", cpu, sources, "lm3s6965.ld", *flags)
        for cpu in ("cortex-m4", "cortex-m0")
    }


@pytest.fixture
def open_qemu(firmware: dict[str, Path], tmp_path: Path) -> Iterator[Opener]:
    machines = []

    def open_board(cpu: str, kind: str) -> tuple[Line, Path]:
        card = tmp_path / f"{cpu}-{kind}.img"
        with card.open("wb") as new:
            new.truncate(CARDS[kind])
        drive = f"if=sd,file={card},format=raw"
        machine = QemuMachine("lm3s6965evb", cpu, firmware[cpu], "-drive", drive)
        machines.append(machine)
        line = Line(machine)  # type: ignore[arg-type]
        line.greet()
        return line, card

    yield open_board
    for machine in machines:
        machine.close()


@pytest.mark.parametrize("kind", CARDS)
def test_the_driver_labels_and_pages_to_a_card_of_others(open_qemu: Opener, kind: str) -> None:
    line, card = open_qemu("cortex-m4", kind)
    assert line.ask("page out 4096 1 sequential").startswith("err -9")
    assert int(line.values("format")["blocks"]) == CARDS[kind] // BLOCK
    line.values("page out 5000 2 sequential")
    line.values("page in 5000 2 scattered")
    line.values("page out 100 3 scattered")
    with card.open("rb") as file:
        assert file.read(BLOCK) == b"POET CARD 1\n".ljust(BLOCK, b"\0")


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m0"])
def test_a_paged_step_is_right_on_a_machine_of_others(open_qemu: Opener, cpu: str) -> None:
    line, card = open_qemu(cpu, "sdsc")
    line.values("format")
    data = random_data()
    put_all(line, data)
    loss, gradient, weights = expected(data)
    assert step(line) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(get(line, GRADIENT), gradient, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(get(line, W), weights, rtol=1e-6)
    with card.open("rb") as file:
        file.seek(2048 * BLOCK)
        page = file.read(6 * BLOCK)
    assert page[: 4 * data.x.size] == (data.x * data.w).tobytes()
    assert not any(page[4 * data.x.size :]), "a page is padded with zeros"


def test_qemu_and_the_emulator_agree_to_the_bit(
    open_qemu: Opener, step_images: dict[str, Path], tmp_path: Path
) -> None:
    line, _ = open_qemu("cortex-m4", "sdsc")
    with open_emulated_board(load_board("nrf52840"), step_images["nrf52840"], tmp_path / "other.img") as emulated:
        emulated.serial.timeout = 60
        other = Line(emulated)
        other.greet()
        for each in (line, other):
            each.values("format")
            put_all(each, random_data())
        assert [step(line) for _ in range(3)] == [step(other) for _ in range(3)]
        assert get(line, W).tobytes() == get(other, W).tobytes()


def test_commits_survive_on_a_card_of_others(open_qemu: Opener) -> None:
    line, _ = open_qemu("cortex-m4", "sdsc")
    line.values("format")
    put_all(line, random_data())
    step(line)
    trained = get(line, W).tobytes()
    line.values("commit 7")
    put_all(line, random_data(seed=5))
    assert line.values("restore")["step"] == "7"
    assert get(line, W).tobytes() == trained


def test_nrf_uart_and_timer_drivers_run_on_qemus_microbit(tmp_path: Path) -> None:
    need_qemu()
    nrf = ROOT / "firmware/boards/nrf52840"
    sources = [
        nrf / "serial.c",
        nrf / "timer.c",
        *(ROOT / "firmware/boards/cortex_m" / f"{part}.c" for part in ("startup", "failure", "wait")),
        BOARD / "microbit.c",
    ]
    board_files = runpy.run_path(str(ROOT / "firmware/platforms/baremetal/builder/board_files.py"))
    settings = board_files["header"](load_board("nrf52840").model_dump())
    (tmp_path / "board_settings.h").write_text(settings)
    include = ("-I", str(nrf), "-I", str(tmp_path))
    image = compile_image(tmp_path / "microbit.elf", "cortex-m0", sources, "microbit.ld", *include)
    machine = QemuMachine("microbit", None, image, "-icount", "shift=6,sleep=off")
    try:
        machine.write(b"abc\n")
        received = b""
        while received.count(b"\n") < 3:
            more = machine.read(100)
            assert more, received
            received += more
        echo, busy, asleep = received.split(b"\n")[:3]
        assert echo == b"abc"
        # Both waits are of 16,000 ticks at 16 MHz, by a loop over the counter and by a sleep to its compare event.
        assert 16_000 <= int(busy, 16) < 17_000
        assert 16_000 <= int(asleep, 16) < 17_000
    finally:
        machine.close()
