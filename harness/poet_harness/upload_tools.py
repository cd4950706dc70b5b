# SPDX-License-Identifier: Apache-2.0
"""The programs that put firmware on a board: which are here, what each still needs, and how each is called.

What a tool prints is read only where it shows memory. None of the calls for a J-Link has been tried on a board.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import serial.tools.list_ports
from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .ports import described, devices, has_id, ports

SEGGER = 0x1366
JLINK_PACK = "the J-Link Software and Documentation Pack of segger.com"
# Where that pack puts the library that others load, beside the linker's own folders.
JLINK_LIBRARY = "libjlinkarm.so"
JLINK_FOLDERS = ("/opt/SEGGER/JLink*", "/Applications/SEGGER/JLink*")
DRIVES = ("/media/*/JLINK", "/run/media/*/JLINK", "/media/JLINK", "/Volumes/JLINK")
OLDEST_BOSSAC = (1, 9)
NRFFW = 0x10001014  # UICR, where a bootloader's start address stands
ERASED = 0xFFFFFFFF
POET_MARK = 0x74656F70  # entry 7 of the firmware's vector table: "poet"
VECTORS = 8
TOOL_TIME_S = 180.0


@dataclass(frozen=True)
class Tool:
    """One way to upload.

    Attributes
    ----------
    name : str
        As in ``upload.tools`` of a board file.
    cure : str
        How to get it.
    found : callable
        Where it is, or None; with what is missing of it as a second string, empty if nothing is.
    upload : callable
        (image, port) to commands, run one after the other.
    read : callable or None
        (address, words) to a command that prints that memory.
    """

    name: str
    cure: str
    found: Callable[[], tuple[str | None, str]]
    upload: Callable[[Path, str | None], list[str]]
    read: Callable[[int, int], list[str]] | None = None


def usable(board: Board) -> Iterator[tuple[Tool, str]]:
    """The board's tools that are here with all that they need, and where; the best first."""
    for tool in _tools(board):
        place, missing = tool.found()
        if place and not missing:
            yield tool, place


def what_is_missing(board: Board) -> str:
    """The ways to upload, and what each needs that is not here: the end of a sentence."""
    ways = []
    for tool in _tools(board):
        place, missing = tool.found()
        if not place:
            ways.append(f"{tool.name} ({tool.cure})")
        elif missing:
            ways.append(f"{tool.name} is here, but {missing}")
    return "; or ".join(ways)


def choose(board: Board) -> Tool:
    """The tool to upload with."""
    for tool, _ in usable(board):
        return tool
    ways = what_is_missing(board) or "its board file names none in upload.tools"
    raise UserError(f"{board.name}: nothing here can upload to it; get one of: {ways}", NO_DEVICE)


def upload_image(board: Board, image: Path, port: str | None) -> None:
    """Put an image on the board.

    Parameters
    ----------
    image : Path
        The ELF file; the tool takes the ``.hex`` or ``.bin`` beside it.
    """
    tool = choose(board)
    done = _run(tool.upload(image, port))
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise UserError(f"uploading to {board.name} failed; the words of {tool.name} are above", NO_DEVICE)


def refuse_several_probes(board: Board) -> None:
    """A tool takes any probe of its kind, and nRF Util all of them, whatever port the console is at."""
    probes = [described(of_one[0]) for of_one in devices(port for port in ports() if has_id(port, board.usb_ids))]
    if len(probes) > 1:
        raise UserError(
            f"{board.name}: an upload could go to any of {len(probes)} probes: {', '.join(probes)}; unplug all but one",
            NO_DEVICE,
        )


def refuse_to_overwrite(board: Board) -> None:
    """Look at what an upload would overwrite, where the firmware goes to address 0 in place of a bootloader.

    Raises
    ------
    UserError
        If something else than poet's firmware lies there, or if it cannot be looked at.
    """
    if not board.upload.overwrites_bootloader:
        return
    tool = choose(board)
    anyway = "--force uploads all the same"
    if tool.read is None:
        raise UserError(f"{board.name}: with {tool.name} nobody can look for a bootloader on the board first; {anyway}")
    words = [_memory(tool, address, count) for address, count in ((NRFFW, 1), (0, VECTORS))]
    if None in words:
        raise UserError(
            f"{board.name}: {tool.name} cannot read what lies on the board (no probe, a locked debug port?); it may be "
            f"a bootloader; {anyway}"
        )
    (start,), vectors = words[0] or [], words[1] or []
    if start != ERASED:
        raise UserError(f"{board.name}: a bootloader lies at 0x{start:08x}, and an upload would destroy it; {anyway}")
    if vectors[-1] != POET_MARK and any(word != ERASED for word in vectors):
        raise UserError(
            f"{board.name}: what lies at address 0 (vectors 0x{vectors[0]:08x} 0x{vectors[1]:08x}) is not poet's "
            f"firmware: an example of the maker's, or a bootloader, which an upload would destroy; {anyway}"
        )


def _memory(tool: Tool, address: int, words: int) -> list[int] | None:
    assert tool.read is not None
    done = _run(tool.read(address, words))
    return None if done.returncode else read_dump(done.stdout + done.stderr, address, words)


def read_dump(text: str, address: int, words: int) -> list[int] | None:
    """Words at an address in what a tool prints: lines of ``address: word word``, or with ``=``."""
    memory: dict[int, int] = {}
    for line in text.splitlines():
        head = re.match(r"\W*(?:0x)?([0-9a-fA-F]{8})\s*[:=|]\s*(.*)", line)
        if head:
            place = int(head.group(1), 16)
            for digits in re.match(r"(?:(?:0x)?[0-9a-fA-F]{8}\b\s*)*", head.group(2))[0].split():  # type: ignore[index]
                memory[place] = int(digits, 16)
                place += 4
    wanted = range(address, address + 4 * words, 4)
    return [memory[place] for place in wanted] if all(place in memory for place in wanted) else None


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TOOL_TIME_S
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{command[0]}: no end after {TOOL_TIME_S:.0f} s", NO_DEVICE) from None
    except OSError as error:
        raise UserError(f"{command[0]}: cannot be started: {error.strerror}", NO_DEVICE) from None


def _tools(board: Board) -> list[Tool]:
    for name in board.upload.tools:
        if name not in TOOLS:
            raise UserError(f"{board.name}: upload.tools: no tool named {name!r}; known are {', '.join(TOOLS)}")
    return [TOOLS[name] for name in board.upload.tools]


def _program(name: str) -> Path | None:
    """Beside this Python, or on the path."""
    found = shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    return Path(found) if found else None


def _here(name: str) -> Callable[[], tuple[str | None, str]]:
    def found() -> tuple[str | None, str]:
        path = _program(name)
        return (str(path) if path else None), ""

    return found


def _with_jlink_library() -> tuple[str | None, str]:
    """pyocd reaches a J-Link through SEGGER's own library; a CMSIS-DAP probe needs nothing."""
    path = _program("pyocd")
    if path is None:
        return None, ""
    if _sees_jlink() and not _jlink_library():
        return str(path), f"the probe is a J-Link: it needs {JLINK_PACK} besides"
    return str(path), ""


def _sees_jlink() -> bool:
    return any(port.vid == SEGGER for port in serial.tools.list_ports.comports())


def _jlink_library() -> bool:
    from ctypes.util import find_library

    folders = (folder for pattern in JLINK_FOLDERS for folder in _matching(pattern))
    return bool(find_library("jlinkarm")) or any((folder / JLINK_LIBRARY).exists() for folder in folders)


def _matching(pattern: str) -> list[Path]:
    root = Path(Path(pattern).anchor)
    return sorted(root.glob(str(Path(pattern).relative_to(root))))


def _nrfutil() -> tuple[str | None, str]:
    path = _program("nrfutil")
    if path is None:
        return None, ""
    if _run([str(path), "device", "--version"]).returncode == 0:
        return str(path), ""
    # Nordic's program of today has no command `version`. The one before it, in Python, has no command `install`.
    old = re.search(r"nrfutil version (\S+)", _run([str(path), "version"]).stdout)
    if old:
        return str(path), f"it is pip's nrfutil {old[1]}, which knows no J-Link: get nRF Util from nordicsemi.com"
    return str(path), "its command is missing: nrfutil install device"


def _bossac() -> tuple[str | None, str]:
    """``--offset`` came with 1.9. Arduino's 1.7 adds the offset itself."""
    path = _program("bossac")
    if path is None:
        return None, ""
    done = _run([str(path), "--help"])
    version = re.search(r"Version (\d+)\.(\d+)", done.stdout + done.stderr)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_BOSSAC:
        which = f"{version[1]}.{version[2]}" if version else "of an unknown version"
        return str(path), f"it is {which}, and --offset needs 1.9: apt install bossa-cli"
    return str(path), ""


def _drive() -> tuple[str | None, str]:
    drives = [drive for pattern in DRIVES for drive in _matching(pattern)]
    return (str(drives[0]) if drives else None), ""


def _jlink_script(*lines: str) -> list[str]:
    """J-Link Commander takes its commands from a file."""
    script = Path(tempfile.mkdtemp(prefix="poet-jlink-")) / "commands.jlink"
    script.write_text("\n".join([*lines, "exit", ""]))
    fixed = ["-NoGui", "1", "-ExitOnError", "1", "-Device", "nRF52840_xxAA", "-If", "SWD", "-Speed", "4000"]
    return [str(_program("JLinkExe")), *fixed, "-AutoConnect", "1", "-CommandFile", str(script)]


def _openocd(*commands: str) -> list[str]:
    probe = "jlink" if _sees_jlink() else "cmsis-dap"
    fixed = ["-f", f"interface/{probe}.cfg", "-c", "transport select swd", "-f", "target/nrf52.cfg"]
    return [str(_program("openocd")), *fixed, *(word for command in commands for word in ("-c", command))]


NRFUTIL_OPTIONS = "chip_erase_mode=ERASE_RANGES_TOUCHED_BY_FIRMWARE,verify=VERIFY_READ,reset=RESET_SYSTEM"
TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "nrfutil",
            "from nordicsemi.com, then nrfutil install device; for J-Link probes",
            _nrfutil,
            lambda image, _: [
                *(str(_program("nrfutil")), "device", "program", "--traits", "jlink"),
                *("--firmware", str(image.with_suffix(".hex")), "--options", NRFUTIL_OPTIONS),
            ],
            lambda address, words: [
                *(str(_program("nrfutil")), "device", "read", "--traits", "jlink"),
                *("--address", f"0x{address:08x}", "--bytes", str(4 * words)),
            ],
        ),
        Tool(
            "JLinkExe",
            f"{JLINK_PACK}; for J-Link probes",
            _here("JLinkExe"),
            lambda image, _: _jlink_script(f'loadfile "{image.with_suffix(".hex")}"', "r", "g"),
            lambda address, words: _jlink_script(f"mem32 0x{address:08x}, {words}"),
        ),
        Tool(
            "pyocd",
            f"pip install pyocd; for CMSIS-DAP probes, and with {JLINK_PACK} for J-Link probes",
            _with_jlink_library,
            lambda image, _: [
                *(str(_program("pyocd")), "load", "--no-wait", "--target", "nrf52840", str(image.with_suffix(".hex"))),
            ],
            # It unlocks a locked chip by erasing all of it, unless asked not to.
            lambda address, words: [
                *(str(_program("pyocd")), "commander", "--no-wait", "--target", "nrf52840", "-O", "auto_unlock=false"),
                *("-c", f"read32 0x{address:08x} {4 * words}"),
            ],
        ),
        Tool(
            "openocd",
            "apt install openocd",
            _here("openocd"),
            lambda image, _: _openocd(f"program {{{image}}} verify reset exit"),
            lambda address, words: _openocd("init", f"mdw 0x{address:08x} {words}", "exit"),
        ),
        Tool(
            "openocd_nucleo_f4",
            "apt install openocd",
            _here("openocd"),
            lambda image, _: [
                *(str(_program("openocd")), "-f", "board/st_nucleo_f4.cfg"),
                *("-c", f"program {{{image}}} verify reset exit"),
            ],
        ),
        Tool(
            "drive",
            "mount the drive JLINK that the DK's probe shows",
            _drive,
            lambda image, _: ["cp", str(image.with_suffix(".hex")), f"{_drive()[0]}/"],
        ),
        Tool(
            "bossac",
            "apt install bossa-cli",
            _bossac,
            lambda image, port: [
                *(str(_program("bossac")), f"--port={port}", "--usb-port=1", "--offset=0x2000", "--erase"),
                *("--write", "--verify", "--reset", str(image.with_suffix(".bin"))),
            ],
        ),
    )
}
