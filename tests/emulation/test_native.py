# SPDX-License-Identifier: Apache-2.0
"""The compiled half of the emulation and the Python that it stands for are the same board."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from poet_harness.emulation import machine_state, nrf52840, samd21, sdcard
from poet_harness.emulation.clock import Clock
from poet_harness.emulation.counter import Counter
from poet_harness.emulation.library import SOURCES, compiled
from poet_harness.emulation.power import Power
from poet_harness.emulation.sdcard import SdCard, crc7, crc16
from poet_profiles.boards import load_board

from tests.support.emulation.emulated_board import BOARDS, Opener

STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "machine": machine_state.MachineState,
    "page": machine_state.PageState,
    "card": sdcard.CardState,
    "nrf52840": nrf52840.ChipState,
    "samd21": samd21.ChipState,
}
BYTE_CYCLES = 8
SIZE = 1024 * 1024
# What takes a card to where it reads and writes: CMD0, CMD8, CMD59, ACMD41 twice.
START = ((0, 0), (8, 0x1AA), (59, 1), (55, 0), (41, 0x40000000), (55, 0), (41, 0x40000000))


def test_both_halves_lay_out_their_structures_alike(tmp_path: Path) -> None:
    """Sizes, and where each field lies."""
    fields = [(name, field[0]) for name, made in STRUCTURES.items() for field in made._fields_]
    lines = [f'    printf("%zu\\n", offsetof(struct {name}, {field}));' for name, field in fields]
    lines += [f'    printf("%zu\\n", sizeof(struct {name}));' for name in STRUCTURES]
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    head = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        '#include "nrf52840.h"',
        '#include "samd21.h"',
        "int main(void)",
    ]
    source.write_text("\n".join([*head, "{", *lines, "}", ""]))
    subprocess.run(["gcc", "-I", str(SOURCES[0].parent), str(source), "-o", str(program)], check=True)
    told = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    expected = [getattr(STRUCTURES[name], field).offset for name, field in fields]
    expected += [ctypes.sizeof(made) for made in STRUCTURES.values()]
    assert [int(number) for number in told] == expected


def test_the_compiled_half_is_clean_c(tmp_path: Path) -> None:
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
    st.integers(0, 100_000),  # a pause
    st.sampled_from(["deselected", "selected", "removed", "back"]),
)  # fmt: skip


class Told(Power):
    """Supply that keeps what it is told of the card, and when."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(load_board("nrf52840").rails_a, clock)
        self.heard: list[tuple[str, int]] = []

    def storage_reads(self, begin: int) -> None:
        self.heard.append(("reads", begin))

    def storage_writes(self, begin: int) -> None:
        self.heard.append(("writes", begin))

    def storage_idles(self, begin: int) -> None:
        self.heard.append(("idles", begin))


def transcript(image: Path, native: bool, sent: list[bytes | int | str], faults: dict[str, int]) -> list[object]:
    """All that can be seen of a card from outside, while a host sends things; it is made anew, and its data end it."""
    image.unlink(missing_ok=True)
    clock = Clock(Counter(), 1_000_000)
    power = Told(clock)
    card = SdCard(image, clock, power, lambda: None, new_bytes=SIZE, native=native)
    seen: list[object] = []

    def move(data: bytes) -> None:
        seen.append((clock.now, card.exchange(data, clock.now, BYTE_CYCLES), card.pending_until(clock.now)))
        clock.advance_to(clock.now + len(data) * BYTE_CYCLES)

    card.select(True)
    for index, argument in START:
        clock.advance_to(clock.now + 30_000)
        move(command(index, argument) + b"\xff" * 10)
    for name, value in faults.items():
        setattr(card.faults, name, value)
    for step in sent:
        if isinstance(step, bytes):
            move(step)
        elif isinstance(step, int):
            clock.advance_to(clock.now + step)
        elif step in ("removed", "back"):
            card.faults.removed = step == "removed"
        else:
            card.select(step == "selected")
    card.close()
    return [*seen, power.heard, card.blocks_written, image.read_bytes()]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sent=st.lists(SENT, max_size=25),
    faults=st.dictionaries(
        st.sampled_from(["corrupt_reads", "silent_corruptions", "shifted_bits", "write_error_after"]),
        st.integers(1, 3),
        max_size=2,
    ),
)
def test_a_card_answers_alike_whatever_it_is_sent(
    tmp_path: Path, sent: list[bytes | int | str], faults: dict[str, int]
) -> None:
    assert compiled() is not None, "needs a C compiler to compare with"
    native, python = (transcript(tmp_path / "card.img", native, sent, faults) for native in (True, False))
    assert native == python


@pytest.mark.parametrize("name", BOARDS)
def test_pages_take_the_same_time_and_charge(open_line: Opener, tmp_path: Path, name: str) -> None:
    def observed(native: bool) -> list[object]:
        (tmp_path / f"{name}.img").unlink(missing_ok=True)
        line = open_line(name, native=native)
        line.values("format")
        seen: list[object] = []
        for request in ("page out 3000 2 sequential", "page in 3000 2 scattered", "page in 512 1 sequential"):
            line.emulated.power_trace()
            ticks = line.values(request)["ticks"]
            trace = line.emulated.power_trace()
            seen.append((ticks, float((np.diff(trace.times_s) * trace.current_a)[trace.window].sum())))
        line.emulated.close()
        return [*seen, (tmp_path / f"{name}.img").read_bytes()[: 2**21]]

    assert observed(True) == observed(False)
