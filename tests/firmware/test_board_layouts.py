# SPDX-License-Identifier: Apache-2.0
"""Boards that are files and not forks: each links after its bootloader, and touches nothing of the bootloader's.

The regions are copied here from the bootloaders' own linker scripts and documents, not from the boards' files.
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
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support import ROOT
from tests.support.emulation.emulated_board import Line
from tests.support.emulation.paged_step import expected, put_all, random_data, step, write_paged_model

RAM = range(0x20000000, 0x20040000)
ADAFRUIT = {  # Adafruit_nRF52_Bootloader, linker/nrf52840.ld
    "bootloader": range(0xF4000, 0xFD800),
    "bootloader's configuration": range(0xFD800, 0xFE000),
    "MBR's parameters": range(0xFE000, 0xFF000),
    "bootloader's settings": range(0xFF000, 0x100000),
}


@dataclass(frozen=True)
class Layout:
    """Where a board's bootloader starts a program; what is not the program's, in flash and at the beginning of RAM."""

    start: int
    kept: dict[str, range]
    ram_kept_bytes: int


LAYOUTS = {
    # README.md of the bootloader: "S140 v6 is 0x26000, v7 is 0x27000"; S140 specification: 8 bytes of RAM.
    "feather-nrf52840": Layout(0x26000, {"MBR and SoftDevice": range(0, 0x26000), **ADAFRUIT}, 8),
    "xiao-nrf52840": Layout(0x27000, {"MBR and SoftDevice": range(0, 0x27000), **ADAFRUIT}, 8),
    # zephyr, arduino_nano_33_ble-common.dtsi: partition "sam-ba"; Arduino's linker_script.ld: 0x200 bytes of RAM.
    "nano-33-ble": Layout(0x10000, {"bootloader": range(0, 0x10000)}, 0x200),
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
    first, *others = LAYOUTS
    done = pio(folder, first, *(word for board in others for word in ("-e", board)))
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


def read_uf2(content: bytes) -> tuple[int, dict[int, bytes]]:
    """Family and memory, as the format's README says it is to be read; written from that page alone."""
    assert len(content) % 512 == 0
    memory: dict[int, bytes] = {}
    families = set()
    for place in range(0, len(content), 512):
        block = content[place : place + 512]
        word = {offset: int.from_bytes(block[offset : offset + 4], "little") for offset in (*range(0, 32, 4), 508)}
        assert block[:4] == b"UF2\n" and word[4] == 0x9E5D5157 and word[508] == 0x0AB16F30
        assert word[8] & 0x2000, "the last word is a family"
        assert not word[8] & 0x1, "for the main flash"
        assert word[20] == place // 512 and word[24] == len(content) // 512
        # What Adafruit's bootloader takes besides (ghostfat.c, is_uf2_block).
        assert word[16] == 256 and word[12] % 256 == 0
        memory[word[12]] = block[32 : 32 + word[16]]
        families.add(word[28])
    (family,) = families
    return family, memory


@pytest.mark.parametrize("name", ["feather-nrf52840", "xiao-nrf52840"])
def test_the_uf2_file_holds_the_binary_where_it_belongs(project: Path, name: str) -> None:
    family, memory = read_uf2(image(project, name, "uf2").read_bytes())
    assert family == 0xADA52840, "uf2families.json: NRF52840"
    begin, binary = LAYOUTS[name].start, image(project, name, "bin").read_bytes()
    assert sorted(memory) == list(range(begin, begin + len(binary), 256))
    whole = b"".join(memory[address] for address in sorted(memory))
    assert whole[: len(binary)] == binary
    assert set(whole[len(binary) :]) <= {0xFF}, "the rest of the last page stays erased"


def test_a_board_that_takes_no_uf2_gets_none(project: Path) -> None:
    assert image(project, "nano-33-ble", "bin").exists()
    assert not image(project, "nano-33-ble", "uf2").exists()


def test_platformio_does_not_pretend_to_upload_where_the_harness_has_to(project: Path) -> None:
    done = pio(project, "xiao-nrf52840", "-t", "upload")
    assert done.returncode != 0
    assert "uploaded to by poet-harness flash --board xiao-nrf52840" in done.stdout + done.stderr


def test_a_copy_of_a_boards_file_needs_no_fork(project: Path) -> None:
    """Another pin, another baud rate and another start: the build gets them, as from poet-harness."""
    board = load_board("feather-nrf52840")
    assert board.pins is not None and board.image is not None
    own = board.model_copy(
        update={
            "name": "mine",
            "baud": 115_200,
            "pins": board.pins.model_copy(update={"window": "P0.26"}),
            "image": board.image.model_copy(update={"flash_begin": 0x27000}),
        }
    )
    done = pio(project, "feather-nrf52840", POET_BOARD=own.model_dump_json(), PLATFORMIO_BUILD_DIR=str(project / "own"))
    assert done.returncode == 0, done.stdout + done.stderr
    header = (project / "own/feather-nrf52840/board/board_settings.h").read_text()
    assert '#define BOARD_NAME "mine"' in header and "#define PIN_WINDOW 26u" in header
    with (project / "own/feather-nrf52840/firmware.elf").open("rb") as file:
        assert allocated(ELFFile(file))[".vectors"].start == 0x27000


@pytest.mark.parametrize(
    ("change", "words"),
    [({"baud": 9600}, "baud of the board's file"), ({"clock_hz": 32_000_000}, "clock_hz of the board's file")],
)
def test_what_a_driver_cannot_do_does_not_build(project: Path, change: dict[str, int], words: str) -> None:
    own = {**json.loads(load_board("nano-33-ble").model_dump_json()), **change}
    done = pio(project, "nano-33-ble", POET_BOARD=json.dumps(own), PLATFORMIO_BUILD_DIR=str(project / "refused"))
    assert done.returncode != 0
    assert words in done.stdout + done.stderr


# ---- the whole firmware of one of them ----


@pytest.fixture(scope="module")
def feather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Feather's whole image, with a training step that pages."""
    folder = tmp_path_factory.mktemp("feather")
    write_paged_model(folder / "model")
    places = {"PLATFORMIO_BUILD_DIR": str(folder / "build"), "POET_MODEL_DIR": str(folder / "model")}
    done = pio(ROOT, "feather-nrf52840", **places)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build/feather-nrf52840/firmware.elf"


def test_a_feathers_image_trains_in_the_emulator_as_computed_by_hand(feather: Path, tmp_path: Path) -> None:
    board = load_board("feather-nrf52840")
    with open_emulated_board(board, feather, tmp_path / "card.img") as emulated:
        emulated.serial.timeout = 60
        line = Line(emulated)
        hello = line.values("hello")
        below = emulated.memory(RAM.start, 8)
        assert hello["board"] == "feather-nrf52840" and hello["regulator"] == "dcdc"
        assert emulated.chip.bus.read(0xE000ED08, 4) == 0x26000, "the vector table is the image's, not the bootloader's"
        line.values("format")
        data = random_data()
        put_all(line, data)
        loss, _, _ = expected(data)
        assert step(line) == pytest.approx(loss, rel=1e-5)
        assert emulated.power_trace().window.any(), "the window line is where the board's file says"
        assert int(line.values("stack")["bytes"]) < board.ram_reserved_bytes
        assert line.ask("bootloader") == "ok"
        assert line.values("hello")["start"] == "request"
        assert emulated.chip.bus.read(0x4000051C, 4) == 0x57, "DFU_MAGIC_UF2_RESET in GPREGRET outlives the reset"
        assert any(below) and emulated.memory(RAM.start, 8) == below, "the MBR's bytes are touched"


def test_the_emulated_board_starts_an_image_where_its_bootloader_would(feather: Path, tmp_path: Path) -> None:
    for name, address in (("nrf52840", "0x0"), ("xiao-nrf52840", "0x27000")):
        with pytest.raises(UserError, match=rf"boots at {address}\. Is it the image of another board"):
            open_emulated_board(load_board(name), feather, tmp_path / "card.img")
