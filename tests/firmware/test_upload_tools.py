# SPDX-License-Identifier: Apache-2.0
"""The upload commands of platformio.ini and docs/boards.md, given to the tools themselves with no board connected.

What a tool says then shows that it knows every option, target and script that it is given: it gets as far as looking
for the probe. Writing to a chip is not shown.
"""

from __future__ import annotations

import random
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from poet_harness.upload_tools import TOOLS

from tests.support import ROOT
from tests.support.firmware.sam_ba import serve_sam_ba

SHELL = re.compile(r"\\\n\s*")


def tool(name: str) -> str:
    """Path of a tool beside this Python or on the path; skips where there is none."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout + done.stderr


def upload_command(board: str, image: Path, port: str = "") -> list[str]:
    """As PlatformIO runs it."""
    project = ConfigParser(interpolation=None)
    project.read(ROOT / "platformio.ini")
    text = project[f"env:{board}"]["upload_command"].replace("$SOURCE", str(image)).replace("$UPLOAD_PORT", port)
    program, *arguments = shlex.split(text)
    return [tool(program), *arguments]


def openocd_commands() -> list[str]:
    page = SHELL.sub(" ", (ROOT / "docs" / "boards.md").read_text())
    return [line.strip() for line in page.splitlines() if line.strip().startswith("openocd ")]


@pytest.mark.parametrize("board", ["nrf52840", "mkr1000"])
def test_openocd_knows_scripts_chip_and_command(board: str) -> None:
    openocd = tool("openocd")
    (command,) = (line for line in openocd_commands() if f"/{board}/" in line)
    *configuration, flag, program = shlex.split(command)[1:]
    assert flag == "-c"
    assert program.startswith(f"program .pio/build/{board}/firmware.elf verify reset")
    asked = said([openocd, *configuration, "-c", 'echo "[flash list] [info commands program]"; shutdown'])
    assert ("nrf5" if board == "nrf52840" else "at91samd") in asked
    assert "program" in asked.splitlines()[-2]
    assert "rror" not in asked


def test_pyocd_knows_the_chip(tmp_path: Path) -> None:
    image = tmp_path / "firmware.hex"
    image.write_text(":00000001FF\n")
    command = upload_command("nrf52840", image)
    target = command[command.index("--target") + 1]
    assert re.search(rf"^\s*{target}\s", said([command[0], "list", "--targets", "--name", target]), re.MULTILINE)
    assert "usage" not in said([*command, "--no-wait"]).lower()
    assert "usage" in said([*command, "--no-such-option"]).lower()


@pytest.mark.parametrize("what", ["upload", "read"])
def test_pyocd_knows_what_the_harness_asks_of_it(tmp_path: Path, what: str) -> None:
    tool("pyocd")
    image = tmp_path / "firmware.hex"
    image.write_text(":00000001FF\n")
    pyocd = TOOLS["pyocd"]
    assert pyocd.read is not None
    command = pyocd.upload(image, None) if what == "upload" else pyocd.read(0x10001014, 4)
    assert "No connected debug probes" in said(command)
    assert "usage" in said([*command, "--no-such-option"]).lower()


def test_openocd_knows_what_the_harness_asks_of_it(tmp_path: Path) -> None:
    tool("openocd")
    openocd = TOOLS["openocd"]
    assert openocd.read is not None
    for command in (openocd.upload(tmp_path / "firmware.elf", None), openocd.read(0, 8)):
        assert "invalid command" not in said(command)


def test_openocd_knows_the_nucleo(tmp_path: Path) -> None:
    tool("openocd")
    words = said(TOOLS["openocd_nucleo_f4"].upload(tmp_path / "firmware.elf", None))
    assert "invalid command" not in words and "Can't find board/st_nucleo_f4.cfg" not in words
    assert "hla_swd" in words or "st-link" in words.lower() or "stlink" in words.lower()


@pytest.mark.parametrize("how", ["the harness", "pio run -t upload"])
def test_bossac_puts_an_image_after_arduinos_bootloader(tmp_path: Path, how: str) -> None:
    tool("bossac")
    image = tmp_path / "firmware.bin"
    image.write_bytes(random.Random(7).randbytes(10_000))
    with serve_sam_ba() as (port, monitor):
        if how == "the harness":
            command = TOOLS["bossac"].upload(image.with_suffix(".elf"), port)
        else:
            command = upload_command("mkr1000", image, port)
        words = said(command)
    assert "Verify successful" in words, f"{words}, {monitor.strange!r}"
    assert not monitor.strange
    assert monitor.flash[:0x2000] == b"\x5a" * 0x2000, "the bootloader is left alone"
    assert monitor.flash[0x2000:].startswith(image.read_bytes())
    assert monitor.resets == 1


def test_the_monitor_of_that_test_tells_a_wrong_call_from_a_right_one(tmp_path: Path) -> None:
    """A word is 0 to bossac, and 0 is RS-232."""
    image = tmp_path / "firmware.bin"
    image.write_bytes(bytes(64))
    with serve_sam_ba() as (port, monitor):
        command = [*upload_command("mkr1000", image, port)]
        words = said([word.replace("--usb-port=1", "--usb-port=true") for word in command])
    assert "operation failed" in words
    assert monitor.strange.startswith(b"\x80\x80")


def test_upload_tools_get_no_option_that_reads_words_as_numbers() -> None:
    """Also where bossac is not installed: its BOOL is a number, and --usb-port=1 is USB."""
    commands = [shlex.join(TOOLS["bossac"].upload(Path("firmware.elf"), "/dev/ttyACM0"))]
    project = ConfigParser(interpolation=None)
    project.read(ROOT / "platformio.ini")
    commands.append(project["env:mkr1000"]["upload_command"])
    for command in commands:
        assert re.search(r" --usb-port(=1)? ", command)


def test_bossac_refuses_an_option_that_it_does_not_know(tmp_path: Path) -> None:
    image = tmp_path / "firmware.bin"
    image.write_bytes(bytes(64))
    command = upload_command("mkr1000", image, "/dev/null")
    assert "No device found on /dev/null" in said(command)
    assert "No device found" not in said([*command, "--no-such-option"])
