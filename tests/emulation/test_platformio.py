# SPDX-License-Identifier: Apache-2.0
"""PlatformIO's build of the boards: what it reports, what it uploads, and that a model's headers reach the compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board

from tests.support import ROOT
from tests.support.emulation.emulated_board import BOARDS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone's firmware part, on a path with a space, with a main of three lines: building it takes seconds."""
    folder = tmp_path / "a clone"
    for part in ("firmware/platforms", "firmware/boards", "firmware/include", "profiles/boards"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "platformio.ini", folder)
    (folder / "firmware/src").mkdir()
    storage = folder / "firmware/src/storage"
    storage.mkdir()
    for source in (ROOT / "firmware/src/storage").glob("sdcard*"):
        shutil.copy(source, storage)
    main = "int main(void);\nint main(void) { poet_board_init(); for (;;) { } }\n"
    build = "extern const char build[];\nconst char build[] = POET_FIRMWARE_ID;\n"
    (folder / "firmware/src/main.c").write_text(f'#include "poet/board.h"\n{build}{main}')
    return folder


def pio(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    return subprocess.run(
        [sys.executable, "-m", "platformio", "run", *arguments],
        cwd=project,
        env={**os.environ, **quiet, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_build_makes_all_images_and_reports_ram_and_flash(project: Path) -> None:
    done = pio(project)
    assert done.returncode == 0, done.stdout + done.stderr
    for board in BOARDS:
        for suffix in ("elf", "hex", "bin", "map"):
            assert (project / ".pio/build" / board / f"firmware.{suffix}").stat().st_size > 0
    assert done.stdout.count("RAM:") == done.stdout.count("Flash:") == len(BOARDS)
    example = project / "firmware/examples/one/build/net.c"
    example.parent.mkdir(parents=True)
    example.write_text("int net;\n")
    again = pio(project, "-e", "nrf52840")
    assert "RAM:" in again.stdout and "Compiling" not in again.stdout, "an example's files are no part of its identity"
    (project / "firmware/include/poet/new.h").write_text("extern int net;\n")
    assert "Compiling .pio/build/nrf52840/src/main.o" in pio(project, "-e", "nrf52840").stdout


def test_the_mkr1000_leaves_room_for_its_bootloader(project: Path) -> None:
    assert pio(project, "-e", "mkr1000").returncode == 0
    first = (project / ".pio/build/mkr1000/firmware.hex").read_text().splitlines()[0]
    assert first.startswith(":10200000"), "the image does not begin at 0x2000"


@pytest.mark.parametrize(
    ("board", "tool", "words"),
    [
        ("nrf52840", "pyocd", ["load", "--target", "nrf52840", "firmware.hex"]),
        ("mkr1000", "bossac", ["--port=/dev/ttyACM9", "--offset=0x2000", "firmware.bin"]),
    ],
)
def test_upload_calls_the_usual_tool(project: Path, tmp_path: Path, board: str, tool: str, words: list[str]) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / tool
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/called"\n')
    fake.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    done = pio(project, "-e", board, "-t", "upload", "--upload-port", "/dev/ttyACM9", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    called = (tmp_path / "called").read_text().splitlines()
    for word in words:
        assert any(argument == word or argument.endswith(f"/{word}") for argument in called), called
    image = Path(called[-1])
    assert (image if image.is_absolute() else project / image).is_file()


def test_a_models_headers_reach_the_compiler(project: Path, tmp_path: Path) -> None:
    source = project / "firmware/src/main.c"
    guard = '#ifdef POET_NO_MODEL\n#error no model\n#endif\n#include "poet_model.h"\n'
    source.write_text(guard + source.read_text())
    assert "no model" in (done := pio(project, "-e", "nrf52840")).stdout + done.stderr
    model = tmp_path / "a model"
    model.mkdir()
    (model / "poet_model.h").write_text("/* here */\n")
    assert pio(project, "-e", "nrf52840", POET_MODEL_DIR=str(model)).returncode == 0


def test_the_converter_is_switched_on_where_the_board_has_its_coil(project: Path, tmp_path: Path) -> None:
    board = load_board("nrf52840")
    assert board.regulator is not None
    for dcdc, ratio in ((True, 1.0), (False, 1.9)):
        own = board.model_copy(update={"regulator": board.regulator.model_copy(update={"dcdc": dcdc})})
        assert pio(project, "-e", "nrf52840", POET_BOARD=own.model_dump_json()).returncode == 0
        image = project / ".pio/build/nrf52840/firmware.elf"
        with open_emulated_board(board, image, tmp_path / "card.img") as emulated:
            emulated._machine.run(1_000_000)
            drawn = emulated.power_trace().current_a[-1] - board.rails_a.storage_idle
        assert drawn == pytest.approx(ratio * board.rails_a.cpu_active)


def test_firmware_that_needs_too_much_ram_does_not_link(project: Path) -> None:
    shutil.copy(ROOT / "firmware/src/built.c", project / "firmware/src")  # it makes an image poet's own
    source = project / "firmware/src/main.c"
    source.write_text(source.read_text().replace("for (;;)", "for (volatile int i = hog[0];; i++)"))
    source.write_text("extern char hog[];\nchar hog[9000] = {1};\n" + source.read_text())
    done = pio(project, "-e", "mkr1000")
    assert done.returncode != 0
    assert "more RAM than the board's profile reserves" in done.stdout + done.stderr
