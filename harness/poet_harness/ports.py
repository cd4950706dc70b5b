# SPDX-License-Identifier: Apache-2.0
"""Serial ports of this computer, and the one that a board is at."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import serial
from poet_profiles.boards import Board, board_names, load_board
from poet_profiles.errors import BAD_INPUT, NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from .serial_port import SerialPort

METER_IDS = {"1915:c00a", "0483:5740"}  # PPK2, LPM01A
# pyserial's location of a USB port: the device, then configuration and interface, as in 1-3:1.2; 1-3:x.2 on Windows.
LOCATION = re.compile(r"(?P<device>[^:]+):[^.]+\.(?P<interface>\d+)")
IN_USE = {errno.EBUSY, errno.EAGAIN}
PERMISSION = "add yourself to the port's group, usually: sudo adduser $USER dialout; then log in again"
MOST_USERS = 3
MOST_PORT = 65_535
NETWORK = ("socket", "rfc2217")
WAYS = "a device's name, ssh://, socket://, rfc2217:// or spy://"


def usb_id(port: ListPortInfo) -> str:
    """``vendor:product`` in hexadecimal, or an empty string for a port that is not on USB."""
    return f"{port.vid:04x}:{port.pid:04x}" if port.vid is not None and port.pid is not None else ""


def has_id(port: ListPortInfo, ids: Iterable[str]) -> bool:
    """Whether the port's USB id is one of those of a board's file."""
    return any(fnmatchcase(usb_id(port), one) for one in ids)


def by_number(name: str) -> list[tuple[int, str]]:
    """Key that sorts names with numbers in them as people do: ``ttyACM9`` before ``ttyACM10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def ports() -> list[ListPortInfo]:
    """Serial ports of this computer, by name."""
    return sorted(list_ports.comports(), key=lambda port: by_number(str(port.device)))


def devices(seen: Iterable[ListPortInfo]) -> list[list[ListPortInfo]]:
    """Ports grouped by the USB device that offers them, each device's by interface, or by number where that is unknown.

    What gives neither a serial number nor its place on the bus is a device of its own.
    """
    groups: dict[tuple[str, ...], list[ListPortInfo]] = {}
    for port in sorted(seen, key=lambda port: by_number(str(port.device))):
        groups.setdefault(_device_key(port), []).append(port)
    for group in groups.values():
        if all(_interface(port) is not None for port in group):
            group.sort(key=lambda port: _interface(port) or 0)
    return list(groups.values())


def described(port: ListPortInfo) -> str:
    """A port by its name, its USB id or description, and its serial number."""
    serial_number = f" serial {port.serial_number}" if port.serial_number else ""
    return f"{port.device} ({usb_id(port) or port.description}){serial_number}"


def _device_key(port: ListPortInfo) -> tuple[str, ...]:
    place = LOCATION.fullmatch(port.location or "")
    if place or port.serial_number:
        return usb_id(port), port.serial_number or "", place["device"] if place else ""
    return usb_id(port), str(port.device)


def _interface(port: ListPortInfo) -> int | None:
    place = LOCATION.fullmatch(port.location or "")
    return int(place["interface"]) if place else None


def find_port(board: Board) -> str:
    """The port whose USB id is one of the board's.

    A board whose console is behind any adapter (no ``usb_ids``) is at the one USB port that is of no maker of boards,
    probes or meters.

    A debug probe offers several ports; the first of its interfaces is the one that carries the console.

    Raises
    ------
    UserError
        With exit code 4, if there is none, or there are several boards.
    """
    seen = ports()
    fitting = [port for port in seen if may_be_console(port, board)]
    consoles = [ports_of_one[0] for ports_of_one in devices(fitting)]
    if len(consoles) == 1 and (board.usb_ids or len(fitting) == 1):
        return str(consoles[0].device)
    listed = ", ".join(described(port) for port in (consoles if board.usb_ids and consoles else seen)) or "none"
    count = len(consoles) if board.usb_ids else len(fitting)
    problem = f"{count} ports fit {board.name}" if count else f"no port found for {board.name}"
    problem += f", whose console is {board.console}" if board.console else ""
    unknown = [] if consoles else [described(port) for port in seen if _is_of_its_maker(port, board)]
    if unknown:
        problem += f"; of its probe's maker, but with an id that poet does not know: {', '.join(unknown)}"
    cure = "name one with --port, or use --emulate"
    if board.kind == "linux":
        cure = "say where its poet-agent is, as in --port ssh://user@board"
    raise UserError(f"{problem}; ports seen: {listed}; {cure}", NO_DEVICE)


def may_be_console(port: ListPortInfo, board: Board) -> bool:
    """Whether a board's console may be at a port, by the port's USB id."""
    if board.usb_ids:
        return has_id(port, board.usb_ids)
    return bool(usb_id(port)) and _maker(usb_id(port)) not in _makers()


def _makers() -> set[str]:
    """Vendors of boards, probes and meters: a port of theirs is no adapter, whatever its product's number."""
    boards = [load_board(name) for name in board_names()]
    return {_maker(one) for board in boards for one in board.usb_ids + board.upload.own_usb_ids} | set(
        map(_maker, METER_IDS)
    )


def _is_of_its_maker(port: ListPortInfo, board: Board) -> bool:
    return _maker(usb_id(port)) in map(_maker, board.usb_ids) and usb_id(port) not in METER_IDS


def _maker(one: str) -> str:
    return one.partition(":")[0]


def open_port(url: str, baud: int) -> SerialPort:
    """Open a device name or any pyserial URL (``socket://``, ``rfc2217://``, ``spy://``).

    Raises
    ------
    UserError
        With exit code 4, if it cannot be opened; with 2, if it is the name of none.
    """
    check_port(url)
    try:
        return open_serial(url, baud, timeout_s=1.0)
    except (serial.SerialException, OSError, ValueError, KeyError, re.error) as error:  # hwgrep:// takes expressions
        problem = f"{url}: cannot be opened: {_reason(url, error)}"
        if "://" in url:
            raise UserError(problem, NO_DEVICE) from None
        listed = ", ".join(str(port.device) for port in ports()) or "none"
        raise UserError(
            f"{problem}; ports seen: {listed}; name another with --port, or use --emulate", NO_DEVICE
        ) from None


def check_port(url: str) -> None:
    """Refuse what can name no port: nothing at all, or a URL of an unknown scheme."""
    if not url.strip():
        raise UserError(f"--port: it is empty; write {WAYS}, or leave it out", BAD_INPUT)
    scheme, found, rest = url.partition("://")
    if not found or scheme.lower() == "ssh":
        return
    if scheme.lower() not in (*NETWORK, "spy", "loop", "alt", "hwgrep", "cp2110"):
        raise UserError(f"{url}: there is no {scheme}://; write {WAYS}", BAD_INPUT)
    place = re.fullmatch(r"(?:\[[^]]+\]|[^][:/@?#]+):([0-9]{1,5})(?:[/?#].*)?", rest)
    if scheme.lower() in NETWORK and not (place and int(place[1]) <= MOST_PORT):
        raise UserError(f"{url}: write {scheme}://HOST:PORT", BAD_INPUT)


def _reason(url: str, error: Exception) -> str:
    """Why a port cannot be opened, and what to do. pyserial raises its own error from a socket's or a terminal's."""
    cause = error.__context__ if isinstance(error, serial.SerialException) and error.__context__ else error
    number = cause.args[0] if cause.args else None
    if isinstance(cause, ConnectionRefusedError):
        return "nobody listens there; start poet-agent --listen there, or the server of the serial port"
    if isinstance(cause, socket.gaierror):
        return "no host has that name"
    if isinstance(cause, TimeoutError) or number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "that host does not answer; is it on, in this network, and its port not blocked?"
    if number == errno.ENOENT:
        return "there is no such port"
    if number in (errno.EACCES, errno.EPERM):
        return f"this user may not use it; {PERMISSION}"
    if number in (errno.ENOTTY, errno.EISDIR, errno.EINVAL):
        return "it is no serial port"
    if number in (errno.ENXIO, errno.ENODEV, errno.EIO):
        return "its device is gone; plug it in anew"
    if "option 'control'" in str(error):
        return f"its server has no modem signals; write {url}{'&' if '?' in url else '?'}ign_set_control"
    return str(error)


def open_serial(url: str, baud: int = 9600, *, timeout_s: float) -> SerialPort:
    """Open a port for this program alone: two that read from one port would each get a part of what comes.

    Raises
    ------
    UserError
        With exit code 4 and the other program's name, if the port is in use.
    OSError, ValueError
        If it cannot be opened for another reason.
    """
    if users := _users(url, but_not=(os.getpid(),)):
        raise _in_use(url, users)
    try:
        return SerialPort(serial.serial_for_url(url, baudrate=baud, timeout=timeout_s, exclusive=True))
    except serial.SerialException as error:
        denied = sys.platform == "win32" and "PermissionError" in str(error)
        if error.errno in IN_USE or denied:
            raise _in_use(url, _users(url)) from None
        raise


def _in_use(url: str, users: list[str]) -> UserError:
    more = [f"{len(users) - MOST_USERS} more"] if len(users) > MOST_USERS else []
    who = " and ".join(users[:MOST_USERS] + more) or "another user's program (ModemManager?)"
    return UserError(f"{url}: in use by {who}; close that, or name another port", NO_DEVICE)


def _users(device: str, but_not: Iterable[int] = ()) -> list[str]:
    """Programs that have a device open, as far as the system shows: on Linux, those of the same user.

    The other end of a pseudo-terminal belongs to a program by nature; such a port is not looked at.
    """
    place = os.path.realpath(device)
    if not place.startswith("/dev/") or (but_not and place.startswith("/dev/pts/")):
        return []
    found = []
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: by_number(path.name)):
        if int(process.name) in but_not:
            continue
        try:
            if any(str(handle.readlink()) == place for handle in (process / "fd").iterdir()):
                found.append(f"{(process / 'comm').read_text().strip()} (process {process.name})")
        except OSError:
            continue  # another user's, or gone meanwhile
    return found
