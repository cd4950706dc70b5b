# SPDX-License-Identifier: Apache-2.0
"""Which port is which: interfaces, numbers, several alike, and ports that another program has."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import serial
from hypothesis import given
from hypothesis import strategies as st
from poet_harness import ports as ports_module
from poet_harness.meters import lpm01a, ppk2
from poet_harness.ports import by_number, find_port, open_port, open_serial
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link
from poet_harness.serial_port import SerialPort
from poet_harness.target.connect import connect
from poet_profiles.boards import board_names, load_board
from poet_profiles.errors import BAD_INPUT, NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from tests.support.harness.simulated_device import SimulatedDevice, serve_rfc2217

BOARD = load_board("nrf52840")
PPK2, PROBE = (0x1915, 0xC00A), (0x1366, 0x1061)


def port(device: str, usb_id: tuple[int, int], serial_number: str | None, location: str | None) -> ListPortInfo:
    entry = ListPortInfo(device)
    entry.vid, entry.pid = usb_id
    entry.serial_number, entry.location, entry.description = serial_number, location, "CDC"
    return entry


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch):
    def plug(*ports: ListPortInfo) -> None:
        monkeypatch.setattr(list_ports, "comports", lambda: list(ports))

    return plug


@given(st.lists(st.integers(0, 300), min_size=2, unique=True), st.sampled_from(["/dev/ttyACM", "COM", "/dev/cu.m"]))
def test_names_are_sorted_by_their_numbers(numbers: list[int], stem: str) -> None:
    names = [f"{stem}{number}" for number in numbers]
    assert sorted(names, key=by_number) == [f"{stem}{number}" for number in sorted(numbers)]


@pytest.mark.parametrize("places", [("1-3:1.0", "1-3:1.2"), ("2-1.4:x.1", "2-1.4:x.3"), (None, None)])
@pytest.mark.parametrize("names", [("/dev/ttyACM9", "/dev/ttyACM10"), ("COM9", "COM10"), ("COM99", "COM100")])
def test_the_first_interface_is_taken_whatever_the_numbers(plugged, places: tuple, names: tuple[str, str]) -> None:
    for usb_id, find in ((PROBE, lambda: find_port(BOARD)), (PPK2, lambda: ppk2.find()[0])):
        first, second = (port(name, usb_id, "A1", place) for name, place in zip(names, places, strict=True))
        for order in ((first, second), (second, first)):
            plugged(*order)
            assert find() == names[0]
        if places[0]:
            # The system has numbered them the other way round.
            first.device, second.device = names[1], names[0]
            plugged(first, second)
            assert find() == names[1]


def test_tenth_interfaces_come_after_second_ones(plugged) -> None:
    plugged(*(port(f"COM{20 - place}", PROBE, "A1", f"1-3:1.{place}") for place in (10, 2, 4)))
    assert find_port(BOARD) == "COM18"


def test_alike_boards_are_listed_with_their_serial_numbers(plugged) -> None:
    plugged(
        *(
            port(f"/dev/ttyACM{2 * board + place // 2}", PROBE, f"68312{board}", f"1-{board}:1.{place}")
            for board in (1, 2)
            for place in (0, 2)
        ),
        port("/dev/ttyUSB0", (0x0403, 0x6001), None, "1-9:1.0"),
    )
    words = r"2 ports fit nrf52840; .*: /dev/ttyACM2 \(1366:1061\) serial 683121, /dev/ttyACM4 .* serial 683122; name"
    with pytest.raises(UserError, match=words) as caught:
        find_port(BOARD)
    assert caught.value.exit_code == NO_DEVICE
    assert "ttyACM3" not in str(caught.value)


def test_ports_of_one_adapter_are_counted_as_ports(plugged) -> None:
    """Any of an adapter's four may have the board's wires."""
    plugged(*(port(f"/dev/ttyUSB{number}", (0x0403, 0x6011), "F1", f"1-4:1.{number}") for number in range(4)))
    with pytest.raises(UserError, match="4 ports fit mkr1000, whose console is"):
        find_port(load_board("mkr1000"))


def test_a_linux_board_is_where_its_agent_is(plugged) -> None:
    plugged()
    with pytest.raises(
        UserError, match=r"no port found for rpi5; .*say where its poet-agent is, as in --port ssh:"
    ) as said:
        find_port(load_board("rpi5"))
    assert "--emulate" not in str(said.value)


@pytest.mark.parametrize("serial_number", [None, "", "same"])
def test_devices_that_cannot_be_told_apart_are_not_taken_by_luck(plugged, serial_number: str | None) -> None:
    plugged(
        port("/dev/ttyACM0", PROBE, serial_number, "1-1:1.0"), port("/dev/ttyACM1", PROBE, serial_number, "1-2:1.0")
    )
    with pytest.raises(UserError, match="2 ports fit"):
        find_port(BOARD)
    plugged(port("/dev/ttyACM0", PPK2, None, None), port("/dev/ttyACM1", PPK2, None, None))
    with pytest.raises(UserError, match=r"found at /dev/ttyACM0 .*, /dev/ttyACM1 .*; name its port"):
        ppk2.open_ppk2("", BOARD)


def test_several_instruments_are_listed_with_their_serial_numbers(plugged) -> None:
    entries = [port(f"/dev/ttyACM{number}", (0x0483, 0x5740), f"P{number}", f"1-{number}:1.0") for number in (10, 9)]
    for entry in entries:
        entry.product = "PowerShield"
    plugged(*entries)
    with pytest.raises(UserError, match=r"/dev/ttyACM9 \(0483:5740\) serial P9, /dev/ttyACM10 .* serial P10"):
        lpm01a.open_lpm01a("", BOARD)


# SEGGER's table of ids (1366:): old ones, and each combination of what a J-Link offers. ST's (0483:): V2-1 and V3, each
# with its drive and without. An id without a serial port in the table is never seen as a port.
JLINKS = [0x0105, 0x0106, *range(0x1001, 0x1030), *range(0x1050, 0x1070)]
STLINKS = [0x374A, 0x374B, 0x374E, 0x374F, 0x3752, 0x3753, 0x3754, 0x3757]


@pytest.mark.parametrize(
    ("board", "vendor", "products"),
    [
        ("nrf52840", 0x1366, JLINKS),
        ("nrf52840", 0x0D28, [0x0204]),
        ("nucleo-f411re", 0x0483, STLINKS),
        ("nano-33-ble", 0x2341, [0x805A]),
    ],
)
def test_a_board_is_found_by_every_id_that_its_probe_can_have(
    plugged, board: str, vendor: int, products: list[int]
) -> None:
    for product in products:
        plugged(port("/dev/ttyACM3", (vendor, product), "S", "1-1:1.0"), port("/dev/ttyACM4", PPK2, "P", "1-2:1.1"))
        assert find_port(load_board(board)) == "/dev/ttyACM3"
        for name in board_names():
            other = load_board(name)
            if other.kind == "microcontroller" and name != board:
                with pytest.raises(UserError, match=f"no port found for {name}"):
                    find_port(other)


@pytest.mark.parametrize(("board", "usb_id"), [("nrf52840", (0x1366, 0x2F01)), ("nucleo-f411re", (0x0483, 0x37FF))])
def test_an_unknown_probe_of_its_maker_is_named(plugged, board: str, usb_id: tuple[int, int]) -> None:
    plugged(port("/dev/ttyACM0", usb_id, "S1", "1-1:1.0"), port("/dev/ttyUSB0", (0x0403, 0x6001), None, "1-9:1.0"))
    name = f"{usb_id[0]:04x}:{usb_id[1]:04x}"
    with pytest.raises(
        UserError, match=rf"an id that poet does not know: /dev/ttyACM0 \({name}\) serial S1; ports seen"
    ):
        find_port(load_board(board))


@pytest.mark.parametrize("product", [0x004E, 0x024E, 0x804E, 0x824E])
def test_a_boards_own_connector_is_no_adapter(plugged, product: int) -> None:
    """The MKR1000's, where Arduino's bootloader and programs are."""
    own = port("/dev/ttyACM0", (0x2341, product), "S", "1-1:1.0")
    plugged(own)
    with pytest.raises(UserError, match="no port found for mkr1000, whose console is a USB-UART adapter"):
        find_port(load_board("mkr1000"))
    plugged(own, port("/dev/ttyUSB0", (0x10C4, 0xEA60), "A", "1-2:1.0"))
    assert find_port(load_board("mkr1000")) == "/dev/ttyUSB0"


def test_a_bootloaders_port_is_not_taken_for_the_firmwares(plugged) -> None:
    plugged(port("/dev/ttyACM0", (0x2341, 0x004E), "S", "1-1:1.0"))
    with pytest.raises(UserError, match=r"/dev/ttyACM0: takes uploads \(2341:004e\), and the firmware does not answer"):
        connect(load_board("mkr1000"), "/dev/ttyACM0", meter="nominal")


@pytest.mark.parametrize(
    ("url", "words", "code"),
    [
        ("", "--port: it is empty", BAD_INPUT),
        ("  ", "--port: it is empty", BAD_INPUT),
        ("foo://x", "there is no foo://; write a device's name, ssh://", BAD_INPUT),
        ("tcp://127.0.0.1:7654", "there is no tcp://", BAD_INPUT),
        ("socket://127.0.0.1", "write socket://HOST:PORT", BAD_INPUT),
        ("socket://127.0.0.1:99999", "write socket://HOST:PORT", BAD_INPUT),
        ("rfc2217://board/", "write rfc2217://HOST:PORT", BAD_INPUT),
        ("/dev/ttyNONE7", "there is no such port; ports seen", NO_DEVICE),
        ("spy:///dev/ttyNONE7", "there is no such port", NO_DEVICE),
        ("/", "it is no serial port; ports seen", NO_DEVICE),
        ("hwgrep://[", "unterminated character set", NO_DEVICE),
    ],
)
def test_what_names_no_port_is_refused_as_what_it_is(url: str, words: str, code: int) -> None:
    for use in (
        lambda: open_port(url, 115200),
        lambda: connect(BOARD, url, meter="nominal"),
        lambda: connect(load_board("rpi4b"), url, meter="nominal"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            use()
        assert caught.value.exit_code == code
        assert "\n" not in str(caught.value)


def test_a_host_that_refuses_is_not_asked_whether_it_is_plugged_in() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    for url in (f"socket://{place}", f"rfc2217://{place}"):
        with pytest.raises(UserError, match="nobody listens there; start poet-agent --listen") as caught:
            open_port(url, 1)
        assert caught.value.exit_code == NO_DEVICE
        assert "ports seen" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "no host has that name"),
        (TimeoutError("timed out"), "that host does not answer"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "that host does not answer"),
        (PermissionError(errno.EACCES, "Permission denied"), "this user may not use it; .*adduser .USER dialout"),
        (OSError(errno.EIO, "Input/output error"), "its device is gone"),
        (termios.error(errno.ENOTTY, "Inappropriate ioctl for device"), "it is no serial port"),
    ],
)
def test_why_a_port_cannot_be_opened_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    """Errors as pyserial hands them on: in its own exception's text, the system's one after it."""

    def serial_for_url(*_: object, **__: object) -> None:
        try:
            raise error
        except Exception as cause:
            raise serial.SerialException(f"Could not open port: {cause}")  # noqa: B904

    monkeypatch.setattr(serial, "serial_for_url", serial_for_url)
    with pytest.raises(UserError, match=f"cannot be opened: {words}"):
        open_port("socket://board:7654", 1)


def test_an_emulated_board_at_a_port_is_a_question() -> None:
    with pytest.raises(UserError, match="--emulate --port /dev/ttyACM0: is it the emulated board, or") as caught:
        connect(BOARD, "/dev/ttyACM0", emulate=True, meter="nominal")
    assert caught.value.exit_code == BAD_INPUT


HOLDER = """
import serial, sys
held = serial.serial_for_url(sys.argv[1], exclusive=True)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_port_in_use_is_told_at_once_with_who() -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    name = os.ttyname(slave)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        for use in (lambda: open_port(name, 115200), lambda: ppk2.open_ppk2(name, BOARD)):
            with pytest.raises(UserError, match=rf"in use by .*python.* \(process {holder.pid}\)") as caught:
                use()
            assert caught.value.exit_code == NO_DEVICE
        holder.stdin.close()
    with open_serial(name, timeout_s=0.1) as port_again:
        assert port_again.in_waiting == 0
    os.close(master)
    os.close(slave)


def test_a_device_that_another_program_has_open_without_a_lock_is_in_use() -> None:
    program = [sys.executable, "-c", "import sys; f = open('/dev/full', 'wb'); print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        [user] = ports_module._users("/dev/full", but_not=(os.getpid(),))
        assert user.endswith(f"(process {holder.pid})")
        with pytest.raises(UserError, match=rf"in use by python\S* \(process {holder.pid}\)"):
            open_port("/dev/full", 9600)
        assert holder.stdin is not None
        holder.stdin.close()


MUCH = bytes(range(256)) * 4000


@contextmanager
def sending(data: bytes) -> Iterator[str]:
    """Where a server sends that to whoever comes and asks, and hangs up."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1)
            connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"


def all_of(port: SerialPort, count: int) -> tuple[bytes, int]:
    """So many bytes, and in how many reads they came."""
    data, reads = b"", 0
    while len(data) < count:
        data += port.read(max(1, port.in_waiting))
        reads += 1
    return data, reads


def test_what_is_there_is_read_at_once() -> None:
    with sending(MUCH) as url, open_port(url, 1) as port:
        port.write(b"?")
        data, reads = all_of(port, len(MUCH))
        assert data == MUCH
        assert reads < len(MUCH) / 500
        with pytest.raises(OSError, match="disconnected"):  # a peer that has hung up is not taken for a silent one
            port.read(max(1, port.in_waiting))


def test_other_urls_read_as_before() -> None:
    with open_port("loop://", 115_200) as port:
        port.write(MUCH[:4096])
        assert all_of(port, 4096) == (MUCH[:4096], 1)
        assert port.in_waiting == 0
    with serve_rfc2217(SimulatedDevice()) as (url, _):
        assert Device(Link(open_port(url, 115_200), url)).stack() == 512


class Failing(serial.SerialBase):
    """A class of serial ports whose device is gone."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @property
    def in_waiting(self) -> int:
        return 1

    def read(self, size: int = 1) -> bytes:
        raise self.error

    def write(self, data: bytes) -> int:
        return len(data)

    def reset_input_buffer(self) -> None:
        """Nothing has come."""

    def _reconfigure_port(self) -> None:
        """There is nothing to set."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    "error",
    [
        termios.error(errno.EIO, "Input/output error"),
        OSError(errno.EBADF, "Bad file descriptor"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        ValueError("file descriptor cannot be a negative integer (-1)"),
        TypeError("an integer is required"),
        serial.SerialException("device reports error (poll)"),
        AttributeError("'NoneType' object has no attribute 'recv'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_port_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Of whichever class, by a link and by a meter that streams."""
    monkeypatch.setattr(serial, "serial_for_url", lambda *_, **__: Failing(error))
    for use in (
        lambda: Device(Link(open_port("/dev/ttyX", 1), "/dev/ttyX")),
        lambda: ppk2.open_ppk2("/dev/ttyX", BOARD),
        lambda: lpm01a.Lpm01aMeter("/dev/ttyX", BOARD),
    ):
        with pytest.raises(UserError, match=r"gone|answers there") as caught:
            use()
        assert caught.value.exit_code == NO_DEVICE
        assert str(error) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["", "alt://"])
def test_a_terminal_that_hangs_up_is_one_line(scheme: str) -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    name = f"{scheme}{os.ttyname(slave)}{'?class=PosixPollSerial' if scheme else ''}"
    link = Link(open_port(name, 115_200), name)
    os.close(slave)
    os.close(master)
    with pytest.raises(UserError, match="the port is gone") as caught:
        Device(link)
    assert caught.value.exit_code == NO_DEVICE
    assert "\n" not in str(caught.value)
