"""Serial ports of this computer, and the one that a board is at."""

from __future__ import annotations

import serial
from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from ..protocol.link import Stream


def usb_id(port: ListPortInfo) -> str:
    """``vendor:product`` in hexadecimal, or an empty string for a port that is not on USB."""
    return f"{port.vid:04x}:{port.pid:04x}" if port.vid is not None and port.pid is not None else ""


def ports() -> list[ListPortInfo]:
    """Serial ports of this computer, by name."""
    return sorted(list_ports.comports(), key=lambda port: str(port.device))


def find_port(board: Board) -> str:
    """The port whose USB id is one of the board's.

    A debug probe offers several ports under one serial number; the first is the one that carries the console.

    Raises
    ------
    UserError
        With exit code 4, if there is none, or there are several boards.
    """
    seen = ports()
    fitting = [port for port in seen if usb_id(port) in board.usb_ids]
    if len({port.serial_number for port in fitting}) == 1:
        return str(fitting[0].device)
    listed = ", ".join(f"{port.device} ({usb_id(port) or port.description})" for port in seen) or "none"
    problem = f"{len(fitting)} ports fit {board.name}" if fitting else f"no port found for {board.name}"
    raise UserError(f"{problem}; ports seen: {listed}; name one with --port, or use --emulate", NO_DEVICE)


def open_port(url: str, baud: int) -> Stream:
    """Open a device name or any pyserial URL (``socket://``, ``rfc2217://``, ``spy://``).

    Raises
    ------
    UserError
        With exit code 4, if it cannot be opened.
    """
    try:
        stream: Stream = serial.serial_for_url(url, baudrate=baud, timeout=1.0)
    except (serial.SerialException, OSError, ValueError) as error:
        listed = ", ".join(str(port.device) for port in ports()) or "none"
        raise UserError(
            f"{url}: cannot be opened ({error}); ports seen: {listed}; name another with --port, or use --emulate",
            NO_DEVICE,
        ) from None
    return stream
