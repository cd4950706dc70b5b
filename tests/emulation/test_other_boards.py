# SPDX-License-Identifier: Apache-2.0
"""A board that was added by following docs/adding_a_board.md, in the emulator: the Nucleo-F411RE."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from poet_harness.emulation import EmulatedBoard, EmulationError, open_emulated_board
from poet_profiles.boards import Board, load_board

from tests.emulation.test_registers import check_registers
from tests.support import ROOT
from tests.support.emulation.emulated_board import Line
from tests.support.emulation.paged_step import GRADIENT, W, expected, get, put_all, random_data, step
from tests.support.emulation.python_board import open_python_board
from tests.support.emulation.vendor_svd import load_svd

NUCLEO = "nucleo-f411re"
Opener = Callable[..., Line]


@pytest.fixture(scope="module", params=(NUCLEO,))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("others")


@pytest.fixture(scope="module")
def image(name: str, model: Path, folder: Path) -> Path:
    """The whole firmware with the paged step."""
    return build(name, folder, model).rename(folder / f"{name}.elf")


def build(name: str, folder: Path, model: Path, **environment: str) -> Path:
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    places = {"PLATFORMIO_BUILD_DIR": str(folder), "POET_MODEL_DIR": str(model)}
    done = subprocess.run(
        [sys.executable, "-m", "platformio", "run", "-e", name],
        cwd=ROOT,
        env={**os.environ, **quiet, **places, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / name / "firmware.elf"


@pytest.fixture
def open_other(name: str, image: Path, tmp_path: Path) -> Iterator[Opener]:
    """Opens the board; keywords go to `opener`."""
    opened = []

    def open_board(
        board: Board | None = None, opener: Callable[..., EmulatedBoard] = open_emulated_board, **options: object
    ) -> Line:
        emulated = opener(board or load_board(name), image, tmp_path / "card.img", **options)
        emulated.serial.timeout = 60
        opened.append(emulated)
        return Line(emulated)

    yield open_board
    for emulated in opened:
        emulated.close()


def test_the_emulated_registers_are_the_vendors(open_other: Opener, name: str) -> None:
    # RM0383, 19.6.1: 0x00C0. ST's file has 0x00C00000.
    check_registers(load_svd(name), open_other().emulated.chip, frozenset({"USART2.SR"}))


def test_it_boots_and_says_why(open_other: Opener, name: str) -> None:
    line = open_other()
    said = line.values("hello")
    board = load_board(name)
    assert said["board"] == name and said["start"] == "power"
    assert board.usable_ram_bytes - 1024 < int(said["ram_bytes"]) < board.ram_bytes
    for cause in ("pin", "request"):
        line.emulated._machine.request_reset(cause)
        before, said = said, line.values("hello")
        assert said["start"] == cause
        assert said["boot"] != before["boot"]


def test_a_paged_step_is_right_and_has_the_bits_of_the_other_cortex_m4(
    open_other: Opener, step_images: dict[str, Path], tmp_path: Path
) -> None:
    data = random_data()
    loss, gradient, weights = expected(data)
    with open_emulated_board(load_board("nrf52840"), step_images["nrf52840"], tmp_path / "other.img") as emulated:
        emulated.serial.timeout = 60
        lines = (open_other(), Line(emulated))
        for line in lines:
            line.values("hello")
            line.values("format")
            put_all(line, data)
        losses = [step(line) for line in lines]
        assert losses[0] == pytest.approx(loss, rel=1e-5) and losses[0] == losses[1]
        assert get(lines[0], W).tobytes() == get(lines[1], W).tobytes()
    np.testing.assert_allclose(get(lines[0], GRADIENT), gradient, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(get(lines[0], W), weights, rtol=1e-6)


def test_commits_survive_a_power_cut(open_other: Opener) -> None:
    line = open_other()
    line.values("hello")
    line.values("format")
    put_all(line, random_data())
    step(line)
    trained = get(line, W).tobytes()
    line.values("commit 7")
    line.emulated.cut_power()
    assert line.values("hello")["start"] == "power"
    put_all(line, random_data(seed=5))
    assert line.values("restore")["step"] == "7"
    assert get(line, W).tobytes() == trained


def test_c_and_python_take_the_same_time_and_charge(open_other: Opener, tmp_path: Path) -> None:
    def observed(opener: Callable[..., EmulatedBoard]) -> list[object]:
        (tmp_path / "card.img").unlink(missing_ok=True)
        line, seen = open_other(opener=opener), []
        for request in ("hello", "format", "page out 3000 1 sequential", "page in 3000 1 scattered", "idle 50000"):
            answer, trace = line.ask(request), line.emulated.power_trace()
            seen += [answer, trace.times_s.tolist(), trace.current_a.tolist(), trace.window.tolist()]
        line.emulated.close()
        return seen

    assert observed(open_emulated_board) == observed(open_python_board)


def test_idle_takes_its_time_asleep_inside_one_window(open_other: Opener, name: str) -> None:
    line = open_other()
    rails = load_board(name).rails_a
    hz = int(line.values("hello")["ticks_hz"])
    line.emulated.power_trace()
    ticks = int(line.values(f"idle {hz // 10}")["ticks"])
    trace = line.emulated.power_trace()
    lengths = np.diff(trace.times_s)
    assert lengths[trace.window].sum() == pytest.approx(ticks / hz, rel=1e-3)
    asleep = trace.current_a < rails.cpu_active
    assert lengths[asleep & trace.window].sum() == pytest.approx(0.1, rel=1e-3)


def test_an_empty_slot_is_told(open_other: Opener) -> None:
    line = open_other()
    line.values("hello")
    line.emulated.card.faults.removed = True
    assert line.ask("format").startswith("err -9")
    line.emulated.card.faults.removed = False
    assert line.ask("format").startswith("ok")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"crystal_is_clock": False}, "HSEBYP does not fit what the board feeds the chip with"),
        ({"crystal_hz": 25_000_000}, "the PLL turns 3125000 Hz into"),
        ({"baud": 57_600}, "USART2: 115207 baud, the board's file says 57600"),
    ],
)
def test_an_image_for_a_board_with_another_clock_or_line_is_noticed(
    open_other: Opener, name: str, change: dict[str, object], words: str
) -> None:
    line = open_other(load_board(name).model_copy(update=change))
    with pytest.raises(EmulationError, match=words):
        line.emulated._machine.run(20_000_000)


@pytest.mark.usefixtures("image")  # most of what it is made of is compiled then
def test_a_module_with_a_crystal_of_its_own_is_a_file(name: str, model: Path, folder: Path, tmp_path: Path) -> None:
    """Like a Black Pill: a crystal of 25 MHz, the card at SPI1's other pins, a LED at PC13."""
    board = json.loads(load_board(name).model_dump_json())
    pins = {**board["pins"], "card_sck": "PA05", "card_miso": "PA06", "card_mosi": "PA07", "low": [], "high": ["PC13"]}
    board |= {"name": "blackpill", "crystal_hz": 25_000_000, "crystal_is_clock": False, "pins": pins}
    pill = Board.model_validate(board)
    elf = build(name, folder, model, POET_BOARD=pill.model_dump_json())
    with open_emulated_board(pill, elf, tmp_path / "pill.img") as emulated:
        emulated.serial.timeout = 60
        line = Line(emulated)
        assert line.values("hello")["board"] == "blackpill"
        assert line.ask("format").startswith("ok")
        assert emulated.chip.bus.read(0x40020800, 4) >> 26 & 3 == 1, "PC13 is an output"
