# SPDX-License-Identifier: Apache-2.0
"""Finding a board among the ports, and reaching one behind ssh."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
from poet_harness.ports import find_port
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link
from poet_harness.target import connect as connecting
from poet_harness.target.connect import connect
from poet_harness.target.process import ProcessStream, ssh_command
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from tests.support.harness import simulated_device, simulated_lpm01a, simulated_ppk2

BOARD = load_board("nrf52840")


def port(device: str, vid: int | None = None, pid: int | None = None, serial_number: str | None = None) -> ListPortInfo:
    info = ListPortInfo(device)
    info.vid, info.pid, info.serial_number = vid, pid, serial_number
    return info


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch):
    def plug(*ports: ListPortInfo) -> None:
        monkeypatch.setattr(list_ports, "comports", lambda: list(ports))

    return plug


def test_a_board_is_found_by_its_usb_id_and_by_the_first_of_its_ports(plugged) -> None:
    plugged(
        port("/dev/ttyS0"),
        port("/dev/ttyACM2", 0x1366, 0x1051, "J1"),
        port("/dev/ttyACM1", 0x1366, 0x1051, "J1"),
        port("/dev/ttyACM0", 0x1915, 0xC00A, "PPK"),
    )
    assert find_port(BOARD) == "/dev/ttyACM1"


def test_two_boards_must_be_told_apart(plugged) -> None:
    plugged(port("/dev/ttyACM0", 0x1366, 0x1051, "J1"), port("/dev/ttyACM1", 0x1366, 0x1015, "J2"))
    with pytest.raises(UserError, match=r"2 ports fit nrf52840.*/dev/ttyACM0 \(1366:1051\).*--port") as caught:
        find_port(BOARD)
    assert caught.value.exit_code == NO_DEVICE


def test_no_board_lists_what_is_there(plugged) -> None:
    plugged(port("/dev/ttyUSB7", 0x0403, 0x6001, "F"))
    with pytest.raises(UserError, match=r"no port found for nrf52840.*/dev/ttyUSB7 \(0403:6001\).*--emulate"):
        find_port(BOARD)


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("ssh://pi@board:2222/run/it --fast", ["-p", "2222", "--", "pi@board", "run/it", "--fast"]),
        ("ssh://board//opt/poet --card c", ["--", "board", "/opt/poet", "--card", "c"]),
        ("ssh://board", ["--", "board", "poet-agent"]),
        ("ssh://board/", ["--", "board", "poet-agent"]),
        ("ssh://Pi@MyPi:22/Poet-Agent", ["-p", "22", "--", "Pi@MyPi", "Poet-Agent"]),
        ("SSH://lab_pi.Local/poet-agent", ["--", "lab_pi.Local", "poet-agent"]),
        ("ssh://me@corp.example@MyPi", ["--", "me@corp.example@MyPi", "poet-agent"]),
        ("ssh://m%40e@MyPi", ["--", "m@e@MyPi", "poet-agent"]),
        ("ssh://pi@[FE80::1%25eth0]:2222/x", ["-p", "2222", "--", "pi@FE80::1%eth0", "x"]),
        ("ssh://[::1]", ["--", "::1", "poet-agent"]),
        (
            "ssh://pi@MyPi//Opt/My%20Pi/agent --pages /m?a#b",
            ["--", "pi@MyPi", "'/Opt/My Pi/agent'", "--pages", "/m?a#b"],
        ),
        ("ssh://h/~/venv/bin/poet-agent", ["--", "h", "~/venv/bin/poet-agent"]),
    ],
)
def test_an_ssh_url_becomes_a_command_that_never_asks(url: str, command: list[str]) -> None:
    assert ssh_command(url) == ["ssh", "-T", "-o", "BatchMode=yes", *command]


def test_the_far_shell_gets_the_command_as_it_is_written() -> None:
    """ssh puts a space between its words."""
    for command in ("'/opt/my  pi/agent' --pages \"$HOME/a b\"", "/opt/my\\ pi/agent  --threads 2"):
        words = ssh_command(f"ssh://pi@MyPi/{command}")
        assert " ".join(words[words.index("pi@MyPi") + 1 :]) == command


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://", "no host"),
        ("ssh:///poet-agent", "no host"),
        ("ssh://pi@/poet-agent", "no host"),
        ("ssh://pi@host:here/poet-agent", "no host"),
        ("ssh://fe80::1/poet-agent", "IPv6 in brackets"),
        ("ssh://-oProxyCommand=touch%20x/poet-agent", "'-oProxyCommand=touch x' is no name"),
        ("ssh://-oProxyCommand=x@host", "'-oProxyCommand=x@' is no name"),
        ("ssh://%2doProxyCommand=x", "is no name"),
        ("ssh://pi@my pi/poet-agent", "is no name"),
        ("ssh://pi@my%0api", "is no name"),
    ],
)
def test_what_ssh_would_take_for_something_else_is_refused(url: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        ssh_command(url)
    assert "\n" not in str(caught.value)


def test_a_password_in_a_url_is_refused_without_being_shown() -> None:
    with pytest.raises(UserError, match="a password has no place") as caught:
        ssh_command("ssh://pi:secret@MyPi/poet-agent")
    assert "secret" not in str(caught.value)


def test_a_board_behind_ssh_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for ssh that runs the remote command here."""
    shim = tmp_path / "ssh"
    shim.write_text('#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift 2\nexec "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    remote = f"{sys.executable} {Path(simulated_device.__file__)} rpi4b"
    with connect(load_board("rpi4b"), f"ssh://pi@far/{remote}", meter="nominal") as target:
        assert target.device.hello.board == "rpi4b"
        assert target.device.stack() == 512


def test_another_board_at_the_port_is_told() -> None:
    with (
        simulated_device.serve(simulated_device.SimulatedDevice(board="mkr1000")) as url,
        pytest.raises(UserError, match=r"the board there is mkr1000, not nrf52840; use --board mkr1000"),
    ):
        connect(BOARD, url, meter="nominal")


@pytest.mark.parametrize("kind", ["ppk2", "ppk2-source", "lpm01a"])
def test_the_supply_is_there_before_the_first_word(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A board behind a meter has no supply until the meter is open, and could not answer."""
    ppk2 = simulated_ppk2.SimulatedPpk2(lambda times_s: 0 * times_s, lambda times_s: times_s < 0)
    lpm01a = simulated_lpm01a.SimulatedLpm01a(lambda _: 1e-3, [])

    def supplied() -> bool:
        return "pwr on" in lpm01a.commands or b"\x0c\x01" in bytes(ppk2.commands)

    class SuppliedDevice(Device):
        def __init__(self, link: Link) -> None:
            deadline_s = time.monotonic() + 10  # the instrument reads its commands a little later
            while not supplied() and time.monotonic() < deadline_s:
                time.sleep(0.01)
            assert supplied()
            super().__init__(link)

    monkeypatch.setattr(connecting, "Device", SuppliedDevice)
    plugged_in = simulated_lpm01a.plugged_in(lpm01a) if kind == "lpm01a" else simulated_ppk2.plugged_in(ppk2)
    with (
        plugged_in as port,
        simulated_device.serve(simulated_device.SimulatedDevice()) as url,
        connect(BOARD, url, meter=f"{kind}:{port}") as opened,
    ):
        assert opened.device.hello.board == "nrf52840"
        assert opened.meter.source == "measured"


def test_a_firmware_built_for_another_supply_is_refused() -> None:
    simulated = simulated_device.SimulatedDevice(start=" start=power reset=00000000 regulator=ldo")
    with simulated_device.serve(simulated) as url, pytest.raises(UserError, match=r"core on the ldo.*says dcdc.*flash"):
        connect(load_board("nrf52840"), url, meter="nominal")


def test_a_recorded_trace_does_not_make_the_host_a_measurement(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,power_w,window\n0,1,0\n1,1,1\n2,1,0\n")
    program = tmp_path / "poet"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {simulated_device.__file__} host\n")
    program.chmod(0o755)
    with connect(load_board("native"), image=program, meter=f"recorded:{trace}") as target:
        assert target.meter.source == "emulated"
        assert target.fresh_card


def test_a_program_that_ends_is_told_in_one_line() -> None:
    with pytest.raises(UserError, match="the program ended with code 3") as caught:
        Device(Link(ProcessStream([sys.executable, "-c", "raise SystemExit(3)"]), "program"))
    assert caught.value.exit_code == NO_DEVICE


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (
            "echo 'Host key verification failed.' >&2; exit 255",
            "ssh has no connection.; its words are above; try the same",
        ),
        (
            "echo 'bash: poet-agent: command not found' >&2; exit 127",
            "no such command there.; give its whole path: ssh://",
        ),
        ("exit 1", "the program ended with code 1.; if it said why, that is above"),
        ("kill -9 $$", "signal 9 ended the program"),
    ],
)
def test_an_ssh_that_ends_is_not_told_to_be_plugged_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], ending: str, words: str
) -> None:
    shim = tmp_path / "ssh"
    shim.write_text(f"#!/bin/sh\n{ending}\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(UserError, match=f"^ssh://pi@far: the port is gone .{words}") as caught:
        connect(load_board("rpi4b"), "ssh://pi@far", meter="nominal")
    assert caught.value.exit_code == NO_DEVICE
    assert "plug" not in str(caught.value)
    assert ("echo" in ending) == bool(capfd.readouterr().err)


def test_a_program_that_has_ended_before_it_is_asked_is_told_as_one_that_ends_later() -> None:
    stream = ProcessStream(["false"])
    stream._process.wait()
    with pytest.raises(UserError, match="the program ended with code 1"):
        Device(Link(stream, "program"))


def test_a_program_that_is_not_there_is_told_in_one_line() -> None:
    with pytest.raises(UserError, match="cannot be started"):
        ProcessStream(["/no/such/program"])


def test_pauses_are_asked_of_the_emulated_card_alone() -> None:
    with pytest.raises(UserError, match="--card-pauses: only the emulated card"):
        connect(load_board("nrf52840"), "loop://", card_pauses=1)
