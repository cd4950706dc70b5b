# SPDX-License-Identifier: Apache-2.0
"""Where firmware goes in and where its console is, on a board that has two ports for that."""

from __future__ import annotations

import time

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..protocol.link import DeviceError, Link, SilentDeviceError
from .ports import find_port, open_port, ports, usb_id

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
        if str(port.device) == named and usb_id(port) in board.upload.usb_ids + board.upload.sketch_usb_ids:
            raise UserError(
                f"{named}: takes uploads ({usb_id(port)}), and the firmware does not answer there; its console is "
                f"{board.console}: name that with --port, and this one with --upload-port",
                NO_DEVICE,
            )
    return named


def upload_port(board: Board, named: str | None, console: str) -> str | None:
    """The bootloader's port, entering the bootloader where that can be done from here; None where the console is it.

    Raises
    ------
    UserError
        With exit code 4, if there is none, or several; with 2, if one is named for a board that has none.
    """
    if not board.upload.usb_ids:
        if named is not None:
            raise UserError(f"{board.name}: uploads through its debug probe; it has no --upload-port")
        return None
    if named is not None:
        if named == console:
            raise UserError(f"{named}: cannot be both, the upload's port and the console ({board.console})", NO_DEVICE)
        return named
    found = _bootloaders(board)
    if not found and _invite(board, console):
        found = _wait_for_bootloader(board)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{board.name}: bootloaders at {', '.join(found)}: name one with --upload-port, and the console of that "
            "board with --port",
            NO_DEVICE,
        )
    raise UserError(
        f"{board.name}: its bootloader's port (USB {', '.join(board.upload.usb_ids)}) is not here, and nothing was "
        f"uploaded: {board.upload.by_hand}, then again; or name the port with --upload-port",
        NO_DEVICE,
    )


def _bootloaders(board: Board) -> list[str]:
    return [str(port.device) for port in ports() if usb_id(port) in board.upload.usb_ids]


def _wait_for_bootloader(board: Board) -> list[str]:
    until_s = time.monotonic() + APPEARS_S
    while not (found := _bootloaders(board)) and time.monotonic() < until_s:
        time.sleep(0.2)
    return found


def _invite(board: Board, console: str) -> bool:
    """Ask what runs on the board to go to its bootloader. False if nobody heard."""
    sketches = [str(port.device) for port in ports() if usb_id(port) in board.upload.sketch_usb_ids]
    if len(sketches) == 1:
        open_port(sketches[0], TOUCH_BAUD).close()
        return True
    link = Link(open_port(console, board.baud), console)
    try:
        link.request("hello", attempts=ATTEMPTS)
        link.request("bootloader", attempts=ATTEMPTS)
    except (SilentDeviceError, DeviceError):
        return False
    finally:
        link.close()
    return True
