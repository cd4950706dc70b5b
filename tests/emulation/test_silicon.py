# SPDX-License-Identifier: Apache-2.0
"""What a real chip does and the firmware must live with: supply, debug lock, faults, crystals that never start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from poet_harness.emulation import EmulatedBoard, EmulationError, Trace
from poet_harness.emulation.variation import Variation
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support.emulation.emulated_board import BOARDS, Line, Opener

TAKEN = Variation(faults="taken")
UNDEFINED = bytes.fromhex("00de")  # udf #0
READS_NOWHERE = bytes.fromhex("4ff0e0600068")  # mov.w r0, #0x70000000; ldr r0, [r0]
RECURSES = bytes.fromhex("ffb4fde7")  # push {r0-r7}; b the push


def address_of(image: Path, symbol: str) -> int:
    with image.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        (found,) = table.get_symbol_by_name(symbol)
        return int(found["st_value"]) & ~1


def patch(emulated: EmulatedBoard, image: Path, symbol: str, code: bytes) -> int:
    """Overwrites the first instructions of a function that has not run yet."""
    address = address_of(image, symbol)
    emulated._machine.write_memory(address, code)
    return address


def ask_in_vain(line: Line, request: str) -> dict[str, str]:
    """Sends a request that the board does not survive, and returns what it says in its next life."""
    with pytest.raises(TimeoutError):
        line.ask(request, patience_s=0.3)
    line.rest = b""
    assert line.ask("stack").startswith("err -4 reset")
    return line.values("hello")


@pytest.mark.parametrize("name", BOARDS)
def test_hello_tells_power_button_and_nothing_else(open_line: Opener, name: str) -> None:
    line = open_line(name, greet=False)
    assert line.values("hello")["start"] == "power"
    line.emulated.reset()
    again = line.values("hello")
    assert again["start"] == "pin"
    line.emulated.cut_power()
    last = line.values("hello")
    assert last["start"] == "power"
    assert not {"failures", "pc", "status", "waited_for"} & (set(again) | set(last))


@pytest.mark.parametrize("name", BOARDS)
def test_a_fault_is_told_from_a_power_loss(open_line: Opener, images: dict[str, Path], name: str) -> None:
    line = open_line(name, variation=TAKEN)
    place = patch(line.emulated, images[name], "poet_board_stack_peak", UNDEFINED)
    said = ask_in_vain(line, "stack")
    assert said["start"] == "fault" and said["failures"] == "1"
    assert int(said["pc"], 16) == place
    assert ("status" in said) == (name == "nrf52840")
    line.emulated.reset()
    said = line.values("hello")
    assert (said["start"], said["failures"]) == ("pin", "1"), "the fault belongs to the start after it alone"
    ask_in_vain_again = ask_in_vain(line, "stack")
    assert ask_in_vain_again["failures"] == "2"
    line.emulated.cut_power()
    assert "failures" not in line.values("hello")


def test_a_cortex_m4s_fault_names_its_kind(open_line: Opener, images: dict[str, Path]) -> None:
    line = open_line("nrf52840", variation=TAKEN)
    patch(line.emulated, images["nrf52840"], "poet_board_stack_peak", READS_NOWHERE)
    assert int(ask_in_vain(line, "stack")["status"], 16) & 1 << 9, "PRECISERR"


def test_a_stack_that_leaves_ram_restarts_a_cortex_m4(open_line: Opener, images: dict[str, Path]) -> None:
    line = open_line("nrf52840", variation=TAKEN)
    patch(line.emulated, images["nrf52840"], "poet_board_stack_peak", RECURSES)
    said = ask_in_vain(line, "stack")
    assert said["start"] == "stack"
    assert int(said["status"], 16) & 1 << 12, "STKERR"


def test_a_stack_that_leaves_ram_locks_a_cortex_m0plus(open_line: Opener, images: dict[str, Path]) -> None:
    line = open_line("mkr1000", variation=TAKEN)
    patch(line.emulated, images["mkr1000"], "poet_board_stack_peak", RECURSES)
    with pytest.raises(UserError, match="locks up"):
        line.ask("stack", patience_s=1.0)


@pytest.mark.parametrize("name", BOARDS)
def test_a_stack_that_comes_near_its_end_restarts_the_board(
    open_line: Opener, images: dict[str, Path], name: str
) -> None:
    line = open_line(name)
    line.emulated._machine.write_memory(address_of(images[name], "poet_stack_start") + 8, bytes(4))
    line.emulated.serial.timeout = 0.3
    line.emulated.serial.read(1)
    assert line.ask("stack").startswith("err -4 reset")
    assert line.values("hello")["start"] == "stack"


def pulses(trace: Trace) -> list[float]:
    """Times at which the window line rises, in seconds."""
    rises = np.flatnonzero(trace.window & ~np.append(False, trace.window[:-1]))
    return [float(trace.times_s[rise]) for rise in rises]


@pytest.mark.parametrize(("name", "seconds"), [("nrf52840", 0.4), ("mkr1000", 0.6)])
def test_a_crystal_that_never_starts_is_blinked(open_line: Opener, name: str, seconds: float) -> None:
    line = open_line(name, greet=False, variation=Variation(crystal_starts=False))
    while line.emulated.time_s < seconds:
        line.emulated._machine.run(1_000_000)
    gaps = np.diff(pulses(line.emulated.power_trace()))[:5]
    within, between = gaps[[0, 1, 3, 4]], gaps[2]
    assert within == pytest.approx(within[0], rel=0.01), "number 1 three times: a pulse, a pause, a pulse"
    assert between > 2 * within[0], "the board starts again and waits again"


@pytest.mark.parametrize("name", BOARDS)
def test_a_wait_that_failed_is_told_by_the_next_life(open_line: Opener, name: str) -> None:
    """The crystal starts at the second attempt."""
    line = open_line(name, greet=False, variation=Variation(crystal_starts=False))
    while not line.emulated.power_trace().window.any():
        line.emulated._machine.run(1_000_000)
    for peripheral in line.emulated.chip.bus.peripherals:
        if hasattr(peripheral, "_crystal_starts"):
            peripheral._crystal_starts = True
    said = line.values("hello")
    assert (said["start"], said["waited_for"], said["failures"]) == ("stall", "1", "1")


@pytest.mark.parametrize("request_", ["format", "page out 4096 1 sequential"])
def test_a_bus_that_stands_still_is_told_by_the_next_life(
    open_line: Opener, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    """SPIM0 never ends a transfer, one that is polled for and one that the CPU sleeps through."""
    line = open_line("nrf52840")
    if request_ != "format":
        line.values("format")
    monkeypatch.setitem(line.emulated.chip.bus._writes, (0x40003010, 4), lambda _value: None)
    line.emulated.power_trace()
    with pytest.raises(TimeoutError):
        line.ask(request_, patience_s=2.0)
    assert len(pulses(line.emulated.power_trace())) >= 3 * 5, "number 5, three times"
    monkeypatch.undo()
    line.rest = b""
    said = line.values("hello")
    assert (said["start"], said["waited_for"]) == ("stall", "5")


def test_the_debug_port_stays_open_where_uicr_allows_it(open_line: Opener) -> None:
    for revision, uicr, is_open in ((5, 0x5A, True), (5, 0xFF, False), (4, 0xFF, True), (4, 0x00, False)):
        variation = Variation(revision_code=revision, uicr_approtect=uicr)
        line = open_line("nrf52840", variation=variation)
        assert line.emulated.chip.debug_locked != is_open, (revision, uicr)
        line.emulated.reset()
        line.values("hello")
        assert line.emulated.chip.debug_locked != is_open, (revision, uicr)


def test_a_firmware_that_does_not_open_the_debug_port_locks_it(open_line: Opener, images: dict[str, Path]) -> None:
    line = open_line("nrf52840", greet=False)
    patch(line.emulated, images["nrf52840"], "startup_first", bytes.fromhex("7047"))  # bx lr
    line.values("hello")
    with pytest.raises(EmulationError, match="debug port is locked"):
        line.emulated.memory(0, 4)


def test_the_firmware_switches_the_converter_on(open_line: Opener) -> None:
    board = load_board("nrf52840")
    assert board.regulator is not None
    line = open_line("nrf52840", greet=False)
    assert line.values("hello")["regulator"] == "dcdc"
    active = board.rails_a.cpu_active + board.rails_a.storage_idle
    line.emulated.power_trace()
    line.values("stack")
    assert line.emulated.power_trace().current_a == pytest.approx(active)
    line.emulated.chip.bus.write(0x40000578, 4, 0)
    line.emulated.power_trace()
    assert line.values("hello")["regulator"] == "ldo"
    trace = line.emulated.power_trace()
    assert trace.current_a == pytest.approx(active + 0.9 * board.rails_a.cpu_active)
    line.values("idle 160000")
    assert line.emulated.power_trace().current_a.min() == pytest.approx(
        board.rails_a.storage_idle + 1.9 * board.rails_a.cpu_idle
    )


def test_spim_needs_the_input_buffer_of_its_clock(open_line: Opener) -> None:
    line = open_line("nrf52840")
    line.emulated.chip.bus.write(0x50000A3C, 4, 0x3)
    with pytest.raises(UserError, match="input buffer of SCK"):
        line.ask("format")


def test_the_mkr1000_knows_an_empty_slot_by_a_pull_up_that_works(open_line: Opener) -> None:
    """While it is a peripheral's the pin has no pull-up: the first question is asked by hand."""
    line = open_line("mkr1000")
    line.emulated.card.faults.removed = True
    before_s = line.emulated.time_s
    assert line.ask("format").startswith("err -9")
    assert 2.0 < line.emulated.time_s - before_s < 2.2, "as long as a card may take to start"
    line.emulated.card.faults.removed = False
    assert line.ask("format").startswith("ok")


def test_a_pin_that_is_a_peripherals_is_not_read_by_hand(open_line: Opener) -> None:
    line = open_line("mkr1000")
    with pytest.raises(EmulationError, match="PA19 is read while it is a peripheral's"):
        line.emulated.chip.bus.read(0x41004420, 4)


def test_the_mkr1000_goes_to_its_bootloader_when_asked(open_line: Opener) -> None:
    line = open_line("mkr1000")
    boot = line.values("hello")["boot"]
    assert line.ask("bootloader") == "ok"
    said = line.values("hello")
    assert said["boot"] != boot and said["start"] == "request"
    assert line.emulated.memory(0x20007FFC, 4) == (0x07738135).to_bytes(4, "little"), "what the bootloader looks for"


def test_a_board_without_a_bootloader_stays(open_line: Opener) -> None:
    line = open_line("nrf52840")
    assert line.ask("bootloader").startswith("err -8")
    assert line.ask("stack").startswith("ok")


def test_the_fpu_does_not_keep_the_cpu_awake(open_line: Opener) -> None:
    """A benchmark leaves the flag "inexact" behind. The firmware clears it before it sleeps, or is stopped."""
    line = open_line("nrf52840")
    line.values("bench 1 2 1 2 6 6 4 3 3 1 1 1 1 1 1")
    assert line.emulated._machine.float_flags
    line.values("idle 1600000")
    assert not line.emulated._machine.float_flags
    line.values("bench 1 2 1 2 6 6 4 3 3 1 1 1 1 1 1")
    code = line.emulated.memory(0, 0x20000)
    writes_of_fpscr = [at for at in range(0, len(code), 2) if code[at : at + 3] == bytes.fromhex("e1ee10")]
    assert writes_of_fpscr
    for place in writes_of_fpscr:
        line.emulated._machine.write_memory(place, bytes.fromhex("00bf00bf"))  # nop; nop
    line.emulated._machine._engine.ctl_flush_tb()
    with pytest.raises(UserError, match="erratum 87"):
        line.ask("idle 1600000")
