# SPDX-License-Identifier: Apache-2.0
"""Both images boot in the emulator, answer the protocol, and agree with each other and with the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support.emulation.emulated_board import BOARDS, Opener
from tests.support.emulation.python_board import open_python_board

CONV = "bench 1 2 1 2 6 6 4 3 3 1 1 1 1 1 1"


@pytest.mark.parametrize("name", BOARDS)
def test_hello_names_the_board_and_its_memory(open_line: Opener, name: str) -> None:
    board = load_board(name)
    answer = open_line(name, greet=False).values("hello")
    assert answer["protocol"] == "2"
    assert answer["board"] == name
    assert board.usable_ram_bytes <= int(answer["ram_bytes"]) < board.ram_bytes


@pytest.mark.parametrize("name", BOARDS)
def test_reset_changes_the_boot_number_and_is_noticed(open_line: Opener, name: str) -> None:
    line = open_line(name)
    before = line.values("hello")["boot"]
    line.emulated.reset()
    assert line.ask("stack").startswith("err -4")
    assert line.values("hello")["boot"] != before


@pytest.mark.parametrize("name", BOARDS)
def test_idle_takes_its_time_asleep_inside_one_window(open_line: Opener, name: str) -> None:
    line = open_line(name)
    rails = load_board(name).rails_a
    hz = int(line.values("hello")["ticks_hz"])
    line.emulated.power_trace()
    ticks = int(line.values(f"idle {hz // 10}")["ticks"])
    trace = line.emulated.power_trace()
    assert ticks == pytest.approx(hz / 10, rel=1e-3)
    lengths = np.diff(trace.times_s)
    assert lengths[trace.window].sum() == pytest.approx(ticks / hz, rel=1e-3)
    asleep = trace.current_a < rails.cpu_active
    assert lengths[asleep & trace.window].sum() == pytest.approx(0.1, rel=1e-3)
    assert not (asleep & ~trace.window).any()


@pytest.mark.parametrize("name", BOARDS)
def test_stack_use_is_measured_within_what_is_reserved(open_line: Opener, name: str) -> None:
    line = open_line(name)
    at_first = int(line.values("stack")["bytes"])
    line.values(CONV)
    after = int(line.values("stack")["bytes"])
    assert 0 < at_first <= after < load_board(name).ram_reserved_bytes


@pytest.mark.parametrize("name", BOARDS)
def test_cycles_do_not_depend_on_how_they_are_counted(open_line: Opener, tmp_path: Path, name: str) -> None:
    def ticks(**options: object) -> list[str]:
        line = open_line(name, **options)
        (tmp_path / f"{name}.img").unlink()
        return [line.values(request)["ticks"] for request in (CONV, "idle 60000", CONV)]

    first = ticks()
    assert ticks() == first
    assert ticks(opener=open_python_board) == first


@pytest.mark.parametrize("name", BOARDS)
def test_time_is_the_same_however_often_the_engine_stops(
    open_line: Opener, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """To the cycle inside the window. When it begins hangs on when the host spoke, and so does where its ticks fall."""

    def window_cycles() -> int:
        line = open_line(name)
        line.emulated.power_trace()
        line.values(CONV)
        trace = line.emulated.power_trace()
        return round(np.diff(trace.times_s)[trace.window].sum() * load_board(name).clock_hz)

    whole = window_cycles()
    monkeypatch.setattr("poet_harness.emulation.emulated_board.SLICE_CYCLES", 1009)
    assert window_cycles() == whole


def test_a_board_that_has_no_emulator_is_refused_in_one_line(images: dict[str, Path], tmp_path: Path) -> None:
    board = load_board("nrf52840").model_copy(update={"name": "toaster", "chip": "toast"})
    with pytest.raises(UserError, match=r"toaster.*cannot be emulated.*nrf52840"):
        open_emulated_board(board, images["nrf52840"], tmp_path / "card.img")


def test_the_old_name_still_opens_a_board(images: dict[str, Path], tmp_path: Path) -> None:
    with open_emulated_board(load_board("nrf52840"), images["nrf52840"], tmp_path / "card.img") as emulated:
        assert emulated.time_s == 0


def test_an_image_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    noise = tmp_path / "firmware.bin"
    noise.write_bytes(b"\x00\x01\x02\x03" * 100)
    with pytest.raises(UserError, match="not an ELF file"):
        open_emulated_board(load_board("nrf52840"), noise, tmp_path / "card.img")
    with pytest.raises(UserError, match="no such firmware image"):
        open_emulated_board(load_board("nrf52840"), tmp_path / "missing.elf", tmp_path / "card.img")


def test_the_image_of_another_board_is_refused_in_one_line(images: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"boots at 0x2000\. Is it the image of another board"):
        open_emulated_board(load_board("mkr1000"), images["nrf52840"], tmp_path / "card.img")


def test_an_interrupt_from_the_keyboard_is_not_lost(open_line: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    line = open_line("nrf52840")

    def pressed(_address: int, _width: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(line.emulated.chip.bus, "read", pressed)
    with pytest.raises(KeyboardInterrupt):
        line.ask("stack")
    monkeypatch.undo()
    assert line.ask("stack").startswith("ok")
