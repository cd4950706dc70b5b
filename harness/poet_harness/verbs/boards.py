# SPDX-License-Identifier: Apache-2.0
"""``poet-harness boards``: the boards that poet knows, and which are connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import Json

if TYPE_CHECKING:
    from poet_profiles.boards import Board
    from serial.tools.list_ports_common import ListPortInfo

NAME = "boards"


def command(as_json: Json = False) -> None:
    """List the known boards and the port each is connected to."""
    from poet_profiles.boards import board_names, load_board
    from poet_profiles.program.json_output import print_json
    from rich.table import Table

    from ..ports import devices, has_id, ports
    from .console import wide_console

    seen = ports()
    known = {name: load_board(name) for name in board_names()}
    consoles = {
        name: [of_one[0] for of_one in devices(port for port in seen if _is_console(port, board))]
        for name, board in known.items()
    }
    uploads = {
        name: [str(port.device) for port in seen if has_id(port, board.upload.usb_ids)] for name, board in known.items()
    }
    if as_json:
        print_json(
            [
                {
                    **board.model_dump(),
                    "ports": [{"device": port.device, "serial_number": port.serial_number} for port in consoles[name]],
                    "upload_ports": uploads[name],
                }
                for name, board in known.items()
            ]
        )
        return
    table = Table("board", "what it is", "RAM", "storage", "port")
    for name, board in known.items():
        here = [*map(_named, consoles[name]), *(f"{device} (uploads)" for device in uploads[name])]
        ram = f"{board.ram_bytes // 1024:,} KB"
        table.add_row(name, board.title, ram, board.storage, ", ".join(here) or "-")
    wide_console().print(table)


def _is_console(port: ListPortInfo, board: Board) -> bool:
    from ..ports import may_be_console

    return board.kind == "microcontroller" and may_be_console(port, board)


def _named(port: ListPortInfo) -> str:
    """A console's port, with the serial number by which two alike boards differ."""
    return f"{port.device} ({port.serial_number})" if port.serial_number else str(port.device)
