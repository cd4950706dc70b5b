# SPDX-License-Identifier: Apache-2.0
"""Boards that are files and not forks: each links after its bootloader, and touches nothing of the bootloader's.

The regions are copied here from the bootloaders' own linker scripts and documents.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from poet_profiles.boards import Board, Image, load_board

from tests.support import ROOT

RAM = range(0x20000000, 0x20040000)


@dataclass(frozen=True)
class Layout:
    """Where a board's bootloader starts a program; what is not the program's, in flash and at the beginning of RAM."""

    start: int
    kept: dict[str, range]
    ram_kept_bytes: int


LAYOUTS = {
    "mkr1000": Layout(0x2000, {"bootloader": range(0, 0x2000)}, 0),  # ArduinoCore-samd, bootloaders/zero
    # Adafruit_nRF52_Bootloader, README.md and linker/nrf52840.ld, with S140 v6, which keeps 8 bytes of RAM.
    "nrf52840": Layout(0x26000, {"below": range(0, 0x26000), "bootloader": range(0xF4000, 0x100000)}, 8),
}
PROGRAM = """#include "poet/board.h"
int main(void);
static int kept = 7;
int main(void)
{
    poet_block_device device;
    poet_board_init();
    kept += poet_board_storage(&device);
    for (;;) {
        poet_board_window(poet_board_getchar() == kept);
    }
}
"""


def pio(project: Path, board: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Builds a board; what follows are options of PlatformIO's."""
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    return subprocess.run(
        [sys.executable, "-m", "platformio", "run", "-e", board, *more],
        cwd=project,
        env={**os.environ, **quiet, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def own_board(name: str) -> Board:
    """A user's copy of a board's file: an nRF52840 that starts through a bootloader; another pin and baud rate."""
    board = load_board(name)
    assert board.pins is not None and board.image is not None
    if name == "mkr1000":
        return board
    image = Image(flash_begin=0x26000, flash_end=0xED000, ram_begin=0x20000008, ram_end=0x20040000, stack_bytes=4096)
    pins = board.pins.model_copy(update={"window": "P0.26"})
    changed = {"name": "mine", "baud": 115_200, "image": image, "pins": pins}
    return board.model_copy(update=changed)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone's firmware part with a main that uses the board and little else: building it takes a second."""
    folder = tmp_path_factory.mktemp("layouts")
    for part in ("firmware/platforms", "firmware/boards", "firmware/include", "profiles/boards"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "platformio.ini", folder)
    (folder / "firmware/src").mkdir()
    for source in (*(ROOT / "firmware/src/storage").glob("sdcard*"), ROOT / "firmware/src/built.c"):
        shutil.copy(source, folder / "firmware/src")
    (folder / "firmware/src/main.c").write_text(PROGRAM)
    for name in LAYOUTS:
        done = pio(folder, name, POET_BOARD=own_board(name).model_dump_json())
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def image(project: Path, board: str, suffix: str) -> Path:
    return project / ".pio/build" / board / f"firmware.{suffix}"


def allocated(elf: ELFFile) -> dict[str, range]:
    """Addresses of every section that takes place on the chip."""
    sections = (section for section in elf.iter_sections() if section["sh_flags"] & 2 and section["sh_size"])
    return {one.name: range(one["sh_addr"], one["sh_addr"] + one["sh_size"]) for one in sections}


def overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_of_the_image_lies_in_what_is_the_bootloaders(project: Path, name: str) -> None:
    layout = LAYOUTS[name]
    with image(project, name, "elf").open("rb") as file:
        elf = ELFFile(file)
        loads = [range(one["p_paddr"], one["p_paddr"] + one["p_filesz"]) for one in elf.iter_segments("PT_LOAD")]
        places = allocated(elf)
    for kept, region in layout.kept.items():
        for place in (*loads, *places.values()):
            assert not overlap(place, region), f"{kept}: {place.start:#x} to {place.stop:#x}"
    in_ram = {section: place for section, place in places.items() if place.start >= RAM.start}
    assert {".stack", ".data", ".bss", ".noinit"} <= set(in_ram)
    for section, place in in_ram.items():
        assert RAM.start + layout.ram_kept_bytes <= place.start and place.stop <= RAM.stop, section
    assert min(place.start for place in loads if len(place)) == layout.start
    assert places[".vectors"].start == layout.start


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_vector_table_is_one_that_a_bootloader_starts(project: Path, name: str) -> None:
    layout, binary = LAYOUTS[name], image(project, name, "bin").read_bytes()
    stack, reset = struct.unpack_from("<2I", binary)
    assert RAM.start + layout.ram_kept_bytes < stack <= RAM.stop and stack % 8 == 0
    assert reset & 1, "Thumb code"
    assert layout.start < reset < layout.start + len(binary)
    with image(project, name, "elf").open("rb") as file:
        size = ELFFile(file).get_section_by_name(".vectors")["sh_size"]
    # Armv7-M Architecture Reference Manual, B3.2.5: a multiple of a power of two that the table fits in.
    assert layout.start % (1 << (size - 1).bit_length()) == 0
    for vector in struct.unpack_from(f"<{size // 4}I", binary)[1:]:
        assert vector in (0, 0x74656F70) or layout.start < vector < layout.start + len(binary)


def test_a_copy_of_a_boards_file_needs_no_fork(project: Path) -> None:
    header = (project / ".pio/build/nrf52840/board/board_settings.h").read_text()
    assert '#define BOARD_NAME "mine"' in header and "#define PIN_WINDOW 26u" in header


@pytest.mark.parametrize(
    ("change", "words"),
    [({"baud": 9600}, "baud of the board's file"), ({"clock_hz": 32_000_000}, "clock_hz of the board's file")],
)
def test_what_a_driver_cannot_do_does_not_build(project: Path, change: dict[str, int], words: str) -> None:
    own = {**json.loads(load_board("nrf52840").model_dump_json()), **change}
    done = pio(project, "nrf52840", POET_BOARD=json.dumps(own), PLATFORMIO_BUILD_DIR=str(project / "refused"))
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
