# SPDX-License-Identifier: Apache-2.0
"""The C of the emulation does what the same in Python does."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from poet_harness.emulation import EmulatedBoard, library, machine_state, open_emulated_board, sdcard, serial_line
from poet_harness.emulation.clock import Clock
from poet_harness.emulation.counter import Counter
from poet_harness.emulation.library import SOURCES
from poet_harness.emulation.peripherals import compare_timer, spi, uart
from poet_harness.emulation.power import Power
from poet_harness.emulation.sdcard import SdCard, crc7, crc16
from poet_harness.emulation.spi_bus import SpiBus, SpiBusState
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.native import NativeError

from tests.support.emulation.emulated_board import BOARDS, Opener
from tests.support.emulation.python_board import open_python_board
from tests.support.emulation.python_card import PythonCard, PythonSpiBus
from tests.support.levels import examples

STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "machine": machine_state.MachineState,
    "page": machine_state.PageState,
    "card": sdcard.CardState,
    "compare_timer": compare_timer.TimerState,
    "timer_register": compare_timer.TimerRegister,
    "byte_spi": spi.ByteSpiState,
    "byte_uart": uart.UartState,
    "serial_line": serial_line.LineState,
    "spi_dma": spi.SpiDmaState,
    "interrupt": machine_state.Interrupt,
}
BYTE_CYCLES = 8
SIZE = 1024 * 1024
HZ = 1_000_000
MOST_POLLS = 40
# What takes a card to where it reads and writes: CMD0, CMD8, CMD59, ACMD41 twice.
START = ((0, 0), (8, 0x1AA), (59, 1), (55, 0), (41, 0x40000000), (55, 0), (41, 0x40000000))


def test_c_and_python_lay_out_their_structures_alike(tmp_path: Path) -> None:
    """Sizes, and where each field lies; and the numbers of a timer's actions."""
    fields = [(name, field[0]) for name, made in STRUCTURES.items() for field in made._fields_]
    lines = [f'    printf("%zu\\n", offsetof(struct {name}, {field}));' for name, field in fields]
    lines += [f'    printf("%zu\\n", sizeof(struct {name}));' for name in STRUCTURES]
    lines += [f'    printf("%d\\n", TIMER_{action.name});' for action in compare_timer.Action]
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    head = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        '#include "byte_spi.h"',
        '#include "byte_uart.h"',
        '#include "compare_timer.h"',
        '#include "spi_dma.h"',
        "int main(void)",
    ]
    source.write_text("\n".join([*head, "{", *lines, "}", ""]))
    subprocess.run(["gcc", "-I", str(SOURCES[0].parent), str(source), "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    expected = [getattr(STRUCTURES[name], field).offset for name, field in fields]
    expected += [ctypes.sizeof(made) for made in STRUCTURES.values()]
    expected += [int(action) for action in compare_timer.Action]
    assert [int(number) for number in printed] == expected


def test_it_is_clean_c(tmp_path: Path) -> None:
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-fsyntax-only"]
    subprocess.run(["gcc", *flags, *(str(source) for source in SOURCES if source.suffix == ".c")], check=True)


def command(index: int, argument: int) -> bytes:
    frame = bytes([0x40 | index]) + argument.to_bytes(4)
    return frame + bytes([crc7(frame) << 1 | 1])


def block(salt: int, damaged: bool) -> bytes:
    data = bytes((salt + 3 * i) & 0xFF for i in range(sdcard.BLOCK))
    return data + (crc16(data) ^ damaged).to_bytes(2)


# What a host may send in one movement of the bus, sense or nonsense.
SENT = st.one_of(
    st.integers(1, 1200).map(lambda count: b"\xff" * count),
    st.builds(command, st.sampled_from([0, 9, 12, 13, 16, 17, 18, 24, 25, 58]), st.integers(0, SIZE // sdcard.BLOCK)),
    st.builds(lambda token, salt, damaged: token + block(salt, damaged), st.sampled_from([b"\xfe", b"\xfc"]),
              st.integers(0, 255), st.booleans()),
    st.just(b"\xfd\xff"),
    st.binary(min_size=1, max_size=40),
    st.integers(0, 100_000),  # a pause, or a few polls
    st.sampled_from(["deselected", "selected", "removed", "back"]),
)  # fmt: skip


class Noted(Power):
    """Supply that keeps what the card reports, and when."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(load_board("nrf52840").rails_a, clock)
        self.reports: list[tuple[str, int]] = []

    def storage_reads(self, begin: int) -> None:
        self.reports.append(("reads", begin))

    def storage_writes(self, begin: int) -> None:
        self.reports.append(("writes", begin))

    def storage_idles(self, begin: int) -> None:
        self.reports.append(("idles", begin))


def transcript(
    image: Path, card_of: type[SdCard], bus_of: type[SpiBus], sent: list[bytes | int | str], faults: dict[str, int]
) -> list[object]:
    """All that can be seen of a card from outside, while a host sends things; it is made anew, and its data end it."""
    image.unlink(missing_ok=True)
    clock = Clock(Counter(), HZ)
    power = Noted(clock)
    card = card_of(image, clock, power, lambda: None, new_bytes=SIZE)
    bus = bus_of(card, clock, SpiBusState())
    seen: list[object] = []

    def move(data: bytes) -> None:
        seen.append((clock.now, card.exchange(data, clock.now, BYTE_CYCLES)))
        clock.advance_to(clock.now + len(data) * BYTE_CYCLES)

    def poll(data: bytes) -> None:
        received, end = bus.poll(data, clock.now, HZ * 8 / BYTE_CYCLES)
        seen.append((clock.now, received, end))
        clock.advance_to(end)

    card.select(True)
    for index, argument in START:
        clock.advance_to(clock.now + 30_000)
        move(command(index, argument))
        move(b"\xff" * 10)
    for name, value in faults.items():
        setattr(card.faults, name, value)
    for step in sent:
        if isinstance(step, bytes):
            move(step)
        elif isinstance(step, int) and step <= MOST_POLLS:
            for _ in range(step):
                poll(b"\xff")
        elif isinstance(step, int):
            clock.advance_to(clock.now + step)
        elif step in ("removed", "back"):
            card.faults.removed = step == "removed"
        else:
            card.select(step == "selected")
    card.close()
    return [*seen, power.reports, card.blocks_written, image.read_bytes()]


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sent=st.lists(SENT, max_size=25),
    faults=st.dictionaries(
        st.sampled_from(["corrupt_reads", "silent_corruptions", "shifted_bits", "write_error_after"]),
        st.integers(1, 3),
        max_size=2,
    ),
)
# Put back, it is in SD mode: in this block stands a CMD0 of a wrong CRC, which such a card passes over.
@example(sent=["removed", b"\xff", "back", b"\xfe" + block(0, False), b"\xff", b"\xff"], faults={})
def test_a_card_answers_alike_whatever_it_is_sent(
    tmp_path: Path, sent: list[bytes | int | str], faults: dict[str, int]
) -> None:
    ways = ((SdCard, SpiBus), (PythonCard, PythonSpiBus))
    c, python = (transcript(tmp_path / "card.img", card, bus, sent, faults) for card, bus in ways)
    assert c == python


@pytest.mark.parametrize("name", BOARDS)
def test_pages_take_the_same_time_and_charge(open_line: Opener, tmp_path: Path, name: str) -> None:
    def observed(opener: Callable[..., EmulatedBoard]) -> list[object]:
        (tmp_path / f"{name}.img").unlink(missing_ok=True)
        line = open_line(name, opener=opener)
        line.values("format")
        seen: list[object] = []
        for request in ("page out 3000 2 sequential", "page in 3000 2 scattered", "page in 512 1 sequential"):
            line.emulated.power_trace()
            ticks = line.values(request)["ticks"]
            trace = line.emulated.power_trace()
            seen.append((ticks, float((np.diff(trace.times_s) * trace.current_a)[trace.window].sum())))
        line.emulated.close()
        return [*seen, (tmp_path / f"{name}.img").read_bytes()[: 2**21]]

    assert observed(open_emulated_board) == observed(open_python_board)


def test_without_a_c_compiler_the_emulator_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_name: str, _sources: object) -> Path:
        raise NativeError("there is no C compiler (nothing; CC names another): apt-get install gcc")

    monkeypatch.setattr(library, "shared_library", none)
    library.compiled.cache_clear()
    with pytest.raises(UserError, match=r"^the emulator is compiled[^\n]* no C compiler \(nothing;[^\n]*$"):
        library.compiled()
