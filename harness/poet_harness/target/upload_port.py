# SPDX-License-Identifier: Apache-2.0
"""Where firmware goes in and where its console is, on a board that has two ports for that."""

from __future__ import annotations

import time

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..ports import find_port, has_id, open_port, ports, usb_id
from ..protocol.link import DeviceError, Link, SilentDeviceError

# From the request to the bootloader's port: a reset, and the host's look at the USB device.
APPEARS_S = 6.0
TOUCH_BAUD = 1200
ATTEMPTS = 3


def console_port(board: Board, named: str | None) -> str:
    """The port that the firmware will answer at: the one named, or the only one that it may be.

    Raises
    ------
    UserError
        With exit code 4, if it is the bootloader's, if there is none, or several.
    """
    if named is None:
        return find_port(board)
    for port in ports():
        if str(port.device) == named and has_id(port, board.upload.own_usb_ids):
            raise UserError(
                f"{named}: takes uploads ({usb_id(port)}), and the firmware does not answer there; its console is "
                f"{board.console}: name that with --port, and this one with --upload-port",
                NO_DEVICE,
            )
    return named


def upload_port(board: Board, named: str | None, console: str) -> str | None:
    """The bootloader's port, entering the bootloader where that can be done from here; None where it has no port.

    Raises
    ------
    UserError
        With exit code 4, if there is none, or several; with 2, if one is named for a board that has none.
    """
    if named is not None and not board.upload.usb_ids:
        raise UserError(f"{board.name}: uploads {_way(board)}; it has no --upload-port")
    if named is not None:
        if named == console:
            raise UserError(f"{named}: cannot be both, the upload's port and the console ({board.console})", NO_DEVICE)
        return named
    if not board.upload.usb_ids:
        return None
    found = _bootloaders(board)
    if not found and _invite(board, console):
        found = _wait_for_bootloader(board)
    return _only(board, found, ", and nothing was uploaded")


def start_bootloader(board: Board, port: str | None) -> str:
    """Port of the bootloader; what runs on the board starts it if it is not there already.

    Parameters
    ----------
    port : str or None
        The firmware's console, or the USB port of a program that listens to 1,200 baud.

    Raises
    ------
    UserError
        With exit code 2, if the board has no bootloader; with 4, if it does not appear.
    """
    if not board.upload.usb_ids:
        raise UserError(f"{board.name}: has no bootloader; it uploads {_way(board)}")
    found = _bootloaders(board)
    if not found:
        sketches = _sketches(board)
        touched = port if port in sketches else sketches[0] if port is None and len(sketches) == 1 else None
        if touched is not None:
            open_port(touched, TOUCH_BAUD).close()
            found = _wait_for_bootloader(board)
        elif _ask(board, console_port(board, port)):
            found = _wait_for_bootloader(board)
    return _only(board, found, "")


def _way(board: Board) -> str:
    return "as a sketch, by Arduino's tools" if board.sketch else "through its debug probe"


def _only(board: Board, found: list[str], so: str) -> str:
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{board.name}: bootloaders at {', '.join(found)}: name one with --upload-port, and the console of that "
            "board with --port",
            NO_DEVICE,
        )
    raise UserError(
        f"{board.name}: its bootloader's port (USB {', '.join(board.upload.usb_ids)}) is not here{so}: "
        f"{board.upload.by_hand}, then again; or name the port with --upload-port",
        NO_DEVICE,
    )


def _bootloaders(board: Board) -> list[str]:
    """Ports of bootloaders that may be the board's."""
    return [str(port.device) for port in ports() if has_id(port, board.upload.usb_ids)]


def _sketches(board: Board) -> list[str]:
    return [str(port.device) for port in ports() if has_id(port, board.upload.sketch_usb_ids)]


def _wait_for_bootloader(board: Board) -> list[str]:
    until_s = time.monotonic() + APPEARS_S
    while not (found := _bootloaders(board)) and time.monotonic() < until_s:
        time.sleep(0.2)
    return found


def _invite(board: Board, console: str) -> bool:
    """Ask what runs on the board to go to its bootloader. False if nothing was there to ask."""
    sketches = _sketches(board)
    if len(sketches) == 1:
        open_port(sketches[0], TOUCH_BAUD).close()
        return True
    return _ask(board, console)


def _ask(board: Board, console: str) -> bool:
    """The same of poet's firmware, at its console."""
    link = Link(open_port(console, board.baud), console)
    try:
        link.request("hello", attempts=ATTEMPTS)
        link.request("bootloader", attempts=ATTEMPTS)
    except (SilentDeviceError, DeviceError):
        return False
    finally:
        link.close()
    return True
