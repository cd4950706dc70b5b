"""Serial ports of this computer, and the one that a board is at."""

from __future__ import annotations

import serial
from poet_profiles.boards import Board, board_names, load_board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from ..protocol.link import Stream

METER_IDS = {"1915:c00a", "0483:5740"}  # PPK2, LPM01A


def usb_id(port: ListPortInfo) -> str:
    """``vendor:product`` in hexadecimal, or an empty string for a port that is not on USB."""
    return f"{port.vid:04x}:{port.pid:04x}" if port.vid is not None and port.pid is not None else ""


def ports() -> list[ListPortInfo]:
    """Serial ports of this computer, by name."""
    return sorted(list_ports.comports(), key=lambda port: str(port.device))


def find_port(board: Board) -> str:
    """The port whose USB id is one of the board's.

    A board whose console is behind any adapter (no ``usb_ids``) is at the one USB port that is no other board's, no
    bootloader's and no meter's.

    A debug probe offers several ports under one serial number; the first is the one that carries the console.

    Raises
    ------
    UserError
        With exit code 4, if there is none, or there are several boards.
    """
    seen = ports()
    fitting = [port for port in seen if may_be_console(port, board)]
    if len({port.serial_number for port in fitting}) == 1 and (board.usb_ids or len(fitting) == 1):
        return str(fitting[0].device)
    listed = ", ".join(f"{port.device} ({usb_id(port) or port.description})" for port in seen) or "none"
    problem = f"{len(fitting)} ports fit {board.name}" if fitting else f"no port found for {board.name}"
    problem += f", whose console is {board.console}" if board.console else ""
    raise UserError(f"{problem}; ports seen: {listed}; name one with --port, or use --emulate", NO_DEVICE)


def may_be_console(port: ListPortInfo, board: Board) -> bool:
    """Whether a board's console may be at a port, by the port's USB id."""
    if board.usb_ids:
        return usb_id(port) in board.usb_ids
    return bool(usb_id(port)) and usb_id(port) not in _known_ids()


def _known_ids() -> set[str]:
    """USB ids of ports that are known to be something else than an adapter."""
    boards = [load_board(name) for name in board_names()]
    uploads = [board.upload.usb_ids + board.upload.sketch_usb_ids for board in boards]
    return {one for ids in (*uploads, *(board.usb_ids for board in boards)) for one in ids} | METER_IDS


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
