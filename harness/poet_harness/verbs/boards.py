"""``poet-harness boards``: the boards that poet knows, and which are connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poet_profiles.boards import Board
    from serial.tools.list_ports_common import ListPortInfo

NAME = "boards"


def command() -> None:
    """List the known boards and the port each is connected to."""
    from poet_profiles.boards import board_names, load_board
    from rich.table import Table

    from ..connection.ports import devices, ports, usb_id
    from .console import wide_console

    seen = ports()
    table = Table("board", "what it is", "RAM", "storage", "port")
    for name in board_names():
        board = load_board(name)
        here = [_named(of_one[0]) for of_one in devices(port for port in seen if _is_console(port, board))]
        here += [f"{port.device} (uploads)" for port in seen if usb_id(port) in board.upload.usb_ids]
        ram = f"{board.ram_bytes // 1024:,} KB"
        table.add_row(name, board.title, ram, board.storage, ", ".join(here) or "-")
    wide_console().print(table)


def _is_console(port: ListPortInfo, board: Board) -> bool:
    from ..connection.ports import may_be_console

    return board.kind == "microcontroller" and may_be_console(port, board)


def _named(port: ListPortInfo) -> str:
    """A console's port, with the serial number that tells two alike boards apart."""
    return f"{port.device} ({port.serial_number})" if port.serial_number else str(port.device)
