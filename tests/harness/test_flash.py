# SPDX-License-Identifier: Apache-2.0
"""Uploading: which port takes the image and which answers, which tool, and what is never overwritten without a word."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest
from poet_harness import firmware, upload_tools
from poet_harness.plan_folder.plan import check_headers, read_plan
from poet_harness.target import upload_port
from poet_harness.verbs import boards, bootloader, flash
from poet_profiles.boards import Board, Upload, load_board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from tests.support.harness.simulated_device import SimulatedDevice, serve, serve_terminal
from tests.support.harness.tiny_plan import HASH, SCHEDULE_HASH, write_plan

BOOTLOADER, SKETCH, ADAPTER, JLINK = (0x2341, 0x024E), (0x2341, 0x804E), (0x0403, 0x6001), (0x1366, 0x1061)
Entry = tuple[str, tuple[int, int]]
Show, Uploads = Callable[..., list[ListPortInfo]], list[str | None]


def write_headers(folder: Path, graph: str = HASH, schedule: str = SCHEDULE_HASH) -> None:
    (folder / "poet_model.h").write_text(f"    .graph_hash = UINT64_C(0x{graph}),\n")
    (folder / "poet_schedule.h").write_text(
        f"    .graph_hash = UINT64_C(0x{graph}),\n    .hash = UINT64_C(0x{schedule}),\n"
    )


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    folder = write_plan(tmp_path / "plan")
    write_headers(folder)
    return folder


@pytest.fixture
def show_ports(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Says which serial ports this computer has; the list may be changed while a test runs."""

    def show(*entries: Entry) -> list[ListPortInfo]:
        listed = [port_info(*entry) for entry in entries]
        monkeypatch.setattr(list_ports, "comports", lambda: list(listed))
        return listed

    return show


def port_info(device: str, ids: tuple[int, int]) -> ListPortInfo:
    port = ListPortInfo(device)
    port.vid, port.pid = ids
    return port


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> Uploads:
    """Ports of the uploads that would have been made."""
    made: Uploads = []
    monkeypatch.setattr(firmware, "upload", lambda board, plan, port, keep: made.append(port))
    return made


def mkr1000(**options: object) -> SimulatedDevice:
    return SimulatedDevice(board="mkr1000", graph_hash=HASH, schedule_hash=SCHEDULE_HASH, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [False, True])
def test_an_upload_and_its_console_are_two_ports(plan: Path, show_ports: Show, uploads: Uploads, named: bool) -> None:
    with serve(mkr1000()) as console:
        show_ports(("/dev/ttyACM0", BOOTLOADER), (console, ADAPTER))
        if named:
            flash.command("mkr1000", plan, port=console, upload_port="/dev/ttyACM7")
        else:
            flash.command("mkr1000", plan)
    assert uploads == ["/dev/ttyACM7" if named else "/dev/ttyACM0"]


def test_both_ports_are_listed(show_ports: Show, capsys: pytest.CaptureFixture[str]) -> None:
    show_ports(("/dev/ttyACM0", BOOTLOADER), ("/dev/ttyUSB0", ADAPTER))
    boards.command(as_json=True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert [port["device"] for port in rows["mkr1000"]["ports"]] == ["/dev/ttyUSB0"]
    assert rows["mkr1000"]["upload_ports"] == ["/dev/ttyACM0"]
    for name, row in rows.items():
        behind_an_adapter = row["kind"] == "microcontroller" and not row["usb_ids"]
        assert bool(row["ports"]) == behind_an_adapter, f"{name}: an adapter tells nothing of the board behind it"
        assert not row["upload_ports"] or name == "mkr1000"
    boards.command()
    assert "(uploads)" in capsys.readouterr().out


class Listening(SimulatedDevice):
    """Firmware that goes to its bootloader when it is asked, whose port then appears."""

    listed: list[ListPortInfo]

    def _bootloader(self) -> str:
        self.listed.append(port_info("/dev/ttyACM3", BOOTLOADER))
        return "ok"


def test_running_firmware_is_sent_to_its_bootloader(plan: Path, show_ports: Show, uploads: Uploads) -> None:
    device = Listening(board="mkr1000", graph_hash=HASH, schedule_hash=SCHEDULE_HASH)
    with serve_terminal(device) as console:
        device.listed = show_ports((console, ADAPTER))
        flash.command("mkr1000", plan)
    assert uploads == ["/dev/ttyACM3"]
    assert "bootloader" in device.carried_out


@pytest.mark.parametrize(
    ("entries", "port", "words"),
    [
        ([("/dev/ttyACM0", BOOTLOADER)], None, "no port found for mkr1000, whose console is a USB-UART adapter"),
        ([], None, "no port found for mkr1000"),
        ([("/dev/ttyACM0", BOOTLOADER), ("a", ADAPTER), ("b", ADAPTER)], None, "2 ports fit mkr1000"),
        ([("/dev/ttyACM0", BOOTLOADER), ("b", JLINK)], None, "no port found for mkr1000"),
        ([("/dev/ttyACM0", BOOTLOADER), ("a", ADAPTER)], "/dev/ttyACM0", "takes uploads.*name that with --port"),
        (
            [("/dev/ttyACM0", BOOTLOADER), ("/dev/ttyACM1", BOOTLOADER), ("a", ADAPTER)],
            None,
            "bootloaders at .*ACM0, .*1",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_is_uploaded(
    plan: Path, show_ports: Show, uploads: Uploads, entries: list[Entry], port: str | None, words: str
) -> None:
    show_ports(*entries)
    with pytest.raises(UserError, match=words) as caught:
        flash.command("mkr1000", plan, port=port)
    assert caught.value.exit_code == NO_DEVICE
    assert uploads == []


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((lambda _: b"",), "nothing was uploaded: press its reset button twice.*--upload-port"),
        ((), "press its reset button twice"),
    ],
    ids=["silent", "without the verb"],
)
def test_who_has_a_board_that_does_not_go_to_its_bootloader_is_told_what_to_press(
    plan: Path, show_ports: Show, uploads: Uploads, answers: tuple[Callable[[bytes], bytes], ...], words: str
) -> None:
    with serve(mkr1000(), *answers) as console:
        show_ports((console, ADAPTER))
        with pytest.raises(UserError, match=words):
            flash.command("mkr1000", plan)
    assert uploads == []


def touched(monkeypatch: pytest.MonkeyPatch, appear: Callable[[], object]) -> list[tuple[str, int]]:
    """Ports that are opened, and at what rate; closing one lets a bootloader appear."""
    opened = []

    class Port:
        def close(self) -> None:
            appear()

    def open_port(url: str, baud: int) -> Port:
        opened.append((url, baud))
        return Port()

    monkeypatch.setattr(upload_port, "open_port", open_port)
    return opened


def test_a_factory_sketch_is_sent_to_the_bootloader_by_its_baud_rate(
    plan: Path, show_ports: Show, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(mkr1000()) as console:
        show_ports(("/dev/ttyACM0", SKETCH), (console, ADAPTER))
        opened = touched(monkeypatch, lambda: show_ports(("/dev/ttyACM1", BOOTLOADER), (console, ADAPTER)))
        flash.command("mkr1000", plan)
    assert opened == [("/dev/ttyACM0", 1200)]
    assert uploads == ["/dev/ttyACM1"]


def test_a_board_with_one_port_has_no_upload_port(plan: Path, show_ports: Show) -> None:
    show_ports(("/dev/ttyACM0", JLINK))
    with pytest.raises(UserError, match="has no --upload-port"):
        flash.command("nrf52840", plan, upload_port="/dev/ttyACM0")


def test_another_plans_headers_are_refused_before_the_build(plan: Path) -> None:
    write_headers(plan, graph="f" * 16)
    with pytest.raises(UserError, match=rf"model.h: belongs to another plan .*f{{16}}, they have {HASH}"):
        flash.command("nrf52840", plan, emulate=True)
    write_headers(plan, schedule="0" * 16)
    with pytest.raises(UserError, match=r"poet_schedule.h: belongs to another plan"):
        check_headers(plan, read_plan(plan))
    (plan / "poet_schedule.h").write_text(f".graph_hash = UINT64_C(0x{HASH})")
    with pytest.raises(UserError, match="it has no hash"):
        check_headers(plan, read_plan(plan))
    (plan / "poet_model.h").unlink()
    with pytest.raises(UserError, match=r"model\.h: No such file or directory; make the plan"):
        check_headers(plan, read_plan(plan))


def test_an_upload_that_did_not_take_is_told(plan: Path, show_ports: Show, uploads: Uploads) -> None:
    with serve(SimulatedDevice(board="mkr1000")) as console:
        show_ports(("/dev/ttyACM0", BOOTLOADER), (console, ADAPTER))
        with pytest.raises(UserError, match="the upload did not take"):
            flash.command("mkr1000", plan)


@pytest.mark.parametrize("dcdc", [True, False])
def test_the_build_is_told_whether_the_board_has_its_coil(monkeypatch: pytest.MonkeyPatch, dcdc: bool) -> None:
    board = load_board("nrf52840")
    assert board.regulator is not None
    board = board.model_copy(update={"regulator": board.regulator.model_copy(update={"dcdc": dcdc})})
    boards: list[Board] = []

    def run(command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        boards.append(Board.model_validate_json(env["POET_BOARD"]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(firmware.subprocess, "run", run)
    firmware.build(board)
    assert boards == [board]


def test_two_builds_wait_for_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(tmp_path / "builds" / "build"))
    (tmp_path / "builds").mkdir()
    ended = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert ended, "it waited"
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(firmware.subprocess, "run", run)
    another = os.open(tmp_path / "builds", os.O_RDONLY)
    fcntl.flock(another, fcntl.LOCK_EX)
    Timer(0.1, lambda handle=another: (ended.append(True), os.close(handle))).start()
    with firmware.built(load_board("nrf52840")):
        another = os.open(tmp_path / "builds", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(another)


# ---- bootloaders ----


def test_the_verb_asks_the_firmware_at_its_console(show_ports: Show, capsys: pytest.CaptureFixture[str]) -> None:
    device = Listening(board="mkr1000")
    with serve_terminal(device) as console:
        device.listed = show_ports((console, ADAPTER))
        bootloader.command("mkr1000", port=console)
    assert "bootloader" in device.carried_out
    assert capsys.readouterr().out == "mkr1000: its bootloader is at /dev/ttyACM3\n"


def test_the_verb_touches_a_sketchs_port_alone(
    show_ports: Show, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new board has no firmware of poet's, and perhaps no adapter yet."""
    show_ports(("/dev/ttyACM0", SKETCH))
    opened = touched(monkeypatch, lambda: show_ports(("/dev/ttyACM1", BOOTLOADER)))
    bootloader.command("mkr1000", as_json=True)
    assert opened == [("/dev/ttyACM0", 1200)]
    assert json.loads(capsys.readouterr().out) == {"board": "mkr1000", "bootloader": "/dev/ttyACM1"}
    bootloader.command("mkr1000")
    assert len(opened) == 1, "it is there already"


def test_the_verb_refuses_a_board_without_a_bootloader(show_ports: Show) -> None:
    show_ports(("/dev/ttyACM0", JLINK))
    with pytest.raises(UserError, match="nrf52840: has no bootloader; it uploads through its debug probe") as caught:
        bootloader.command("nrf52840")
    assert caught.value.exit_code == 2
    with pytest.raises(UserError, match="nano-33-ble: has no bootloader; it uploads as a sketch, by Arduino's tools"):
        bootloader.command("nano-33-ble")


# ---- tools ----

REST = "ffffffff ffffffff ffffffff {mark}"
MEMORY = {
    "pyocd": "10001014:  {start}    |....|\n00000000:  {words}   |...|\n00000010:  " + REST + "    |....|\n",
    "openocd": "Info : x\n0x10001014: {start} \n\n0x00000000: {words} " + REST + " \n",
    "JLinkExe": "J-Link>mem32\n10001014 = {start} \n00000000 = {words} \n00000010 = " + REST + " \n",
    "nrfutil": "0x10001014: {start} |....|\n0x00000000: {words} |....|\n0x00000010: " + REST + " |....|\n",
}
ERASED = "ffffffff"
OURS = "20001800 00000101 00000201 00000201"


@pytest.fixture
def tool_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is all of the path, and neither J-Link nor drive."""
    folder = tmp_path / "tools"
    folder.mkdir()
    with ExitStack() as undo:
        monkeypatch.setattr("sys.executable", str(folder / "python"))
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(upload_tools, "DRIVES", (str(tmp_path / "drives" / "*" / "JLINK"),))
        monkeypatch.setattr(upload_tools, "JLINK_FOLDERS", ())
        yield folder
        undo.close()


def put_tool(folder: Path, name: str, says: str = "", code: int = 0) -> Path:
    """A program that notes how it was called and says something."""
    calls = folder / f"{name}.calls"
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\n/bin/cat <<"END"\n{says}\nEND\nexit {code}\n')
    program.chmod(0o755)
    return calls


@pytest.mark.parametrize("name", sorted(MEMORY))
@pytest.mark.parametrize(
    ("start", "words", "mark", "refusal"),
    [
        (ERASED, " ".join([ERASED] * 4), ERASED, None),
        (ERASED, OURS, "74656f70", None),
        ("000f4000", OURS, "74656f70", r"a bootloader lies at 0x000f4000.*--force"),
        (ERASED, "20000400 00000a81 00000715 00000a61", "00000000", r"not poet's firmware.*--force"),
    ],
)
def test_a_bootloader_is_not_overwritten_without_a_word(
    tool_folder: Path, show_ports: Show, name: str, start: str, words: str, mark: str, refusal: str | None
) -> None:
    show_ports()
    put_tool(tool_folder, name, MEMORY[name].format(start=start, words=words, mark=mark))
    board = load_board("nrf52840")
    if refusal is None:
        upload_tools.refuse_to_overwrite(board)
    else:
        with pytest.raises(UserError, match=refusal):
            upload_tools.refuse_to_overwrite(board)


def test_what_cannot_be_looked_at_is_not_overwritten(tool_folder: Path, show_ports: Show) -> None:
    show_ports()
    board = load_board("nrf52840")
    put_tool(tool_folder, "pyocd", "No connected debug probes", code=3)
    with pytest.raises(UserError, match=r"pyocd cannot read.*--force"):
        upload_tools.refuse_to_overwrite(board)
    put_tool(tool_folder, "pyocd", "something new")
    with pytest.raises(UserError, match=r"pyocd cannot read.*--force"):
        upload_tools.refuse_to_overwrite(board)
    (tool_folder / "pyocd").unlink()
    (tool_folder.parent / "drives" / "me" / "JLINK").mkdir(parents=True)
    with pytest.raises(UserError, match=r"with drive nobody can look.*--force"):
        upload_tools.refuse_to_overwrite(board)
    upload_tools.refuse_to_overwrite(load_board("mkr1000"))


def test_reading_never_unlocks_and_so_erases(tool_folder: Path, show_ports: Show) -> None:
    show_ports()
    calls = put_tool(tool_folder, "pyocd")
    with pytest.raises(UserError):
        upload_tools.refuse_to_overwrite(load_board("nrf52840"))
    assert all("auto_unlock=false" in line for line in calls.read_text().splitlines())


def test_a_probe_that_is_a_jlink_needs_its_makers_software(
    tool_folder: Path, show_ports: Show, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    board = load_board("nrf52840")
    put_tool(tool_folder, "pyocd")
    show_ports(("/dev/ttyACM0", JLINK))
    with pytest.raises(UserError, match=r"pyocd is here, but the probe is a J-Link.*JLINK") as caught:
        upload_tools.choose(board)
    assert caught.value.exit_code == NO_DEVICE
    (tmp_path / "JLink").mkdir()
    (tmp_path / "JLink" / "libjlinkarm.so").touch()
    monkeypatch.setattr(upload_tools, "JLINK_FOLDERS", (str(tmp_path / "JLink*"),))
    assert upload_tools.choose(board).name == "pyocd"
    put_tool(tool_folder, "nrfutil", code=1)
    assert upload_tools.choose(board).name == "pyocd", "nrfutil without its device command is not enough"
    assert "nrfutil install device" in upload_tools.what_is_missing(board)
    put_tool(tool_folder, "nrfutil")
    assert upload_tools.choose(board).name == "nrfutil"


def test_with_two_probes_nothing_is_uploaded_whatever_port_is_named(
    plan: Path, show_ports: Show, uploads: Uploads
) -> None:
    """nRF Util programs every device that fits its traits."""
    show_ports(("/dev/ttyACM0", JLINK), ("/dev/ttyACM2", (0x1366, 0x1014)), ("/dev/ttyUSB0", ADAPTER))
    with pytest.raises(UserError, match=r"any of 2 probes: /dev/ttyACM0 .*, /dev/ttyACM2 \(1366:1014\).*; unplug") as e:
        flash.command("nrf52840", plan, port="/dev/ttyACM2", force=True)
    assert e.value.exit_code == NO_DEVICE
    assert uploads == []


def test_pips_nrfutil_is_not_sent_for_a_command_that_it_does_not_know(tool_folder: Path) -> None:
    program = tool_folder / "nrfutil"
    program.write_text('#!/bin/sh\n[ "$1" = version ] && echo "nrfutil version 6.1.7" && exit 0\nexit 2\n')
    program.chmod(0o755)
    missing = upload_tools.what_is_missing(load_board("nrf52840"))
    assert "nrfutil is here, but it is pip's nrfutil 6.1.7, which knows no J-Link: get nRF Util from" in missing
    assert "nrfutil install device;" not in missing


def test_an_old_bossac_is_told(tool_folder: Path) -> None:
    board = load_board("mkr1000")
    for says, known in (
        ("(BOSSA) Version 1.7.0", False),
        ("(BOSSA) Version 1.9.1", True),
        ("(BOSSA) Version 1.10", True),
    ):
        put_tool(tool_folder, "bossac", says, code=1)
        if known:
            assert upload_tools.choose(board).name == "bossac"
        else:
            with pytest.raises(UserError, match=r"bossac is here, but it is 1\.7, and --offset needs 1\.9"):
                upload_tools.choose(board)


@pytest.mark.parametrize(
    ("tool", "suffix", "board"),
    [
        ("nrfutil", "hex", "nrf52840"),
        ("JLinkExe", None, "nrf52840"),
        ("pyocd", "hex", "nrf52840"),
        ("openocd", "elf", "nrf52840"),
        ("bossac", "bin", "mkr1000"),
    ],
)
def test_each_tool_gets_the_file_that_it_reads(
    tool_folder: Path, show_ports: Show, tmp_path: Path, tool: str, suffix: str | None, board: str
) -> None:
    show_ports()
    calls = put_tool(tool_folder, tool, "Version 1.9")
    upload_tools.upload_image(load_board(board), tmp_path / "firmware.elf", "/dev/ttyACM5")
    last = calls.read_text().splitlines()[-1]
    if suffix is None:
        script = Path(last.split()[-1])
        assert script.read_text().splitlines()[0] == f'loadfile "{tmp_path / "firmware.hex"}"'
    else:
        assert f"firmware.{suffix}" in last
    assert ("--port=/dev/ttyACM5" in last) == (tool == "bossac")


def test_a_failed_upload_ends_with_code_4(
    tool_folder: Path, show_ports: Show, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_ports()
    put_tool(tool_folder, "openocd", "Error: no device found", code=1)
    with pytest.raises(UserError, match="uploading to nrf52840 failed") as caught:
        upload_tools.upload_image(load_board("nrf52840"), tmp_path / "firmware.elf", None)
    assert caught.value.exit_code == NO_DEVICE
    assert "no device found" in capsys.readouterr().err


def test_the_drive_gets_a_copy(tool_folder: Path, show_ports: Show, tmp_path: Path) -> None:
    show_ports()
    (tool_folder / "cp").symlink_to(shutil.which("cp", path="/usr/bin:/bin") or "/bin/cp")
    drive = tmp_path / "drives" / "me" / "JLINK"
    drive.mkdir(parents=True)
    (tmp_path / "firmware.hex").write_text(":00000001FF\n")
    upload_tools.upload_image(load_board("nrf52840"), tmp_path / "firmware.elf", None)
    assert (drive / "firmware.hex").read_text() == ":00000001FF\n"


def test_a_board_file_with_an_unknown_tool_is_refused(tool_folder: Path) -> None:
    board: Board = load_board("nrf52840").model_copy(update={"upload": Upload(tools=("hammer",))})
    with pytest.raises(UserError, match="no tool named 'hammer'; known are"):
        upload_tools.choose(board)
