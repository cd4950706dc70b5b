"""``poet-harness boards``: the boards that poet knows, and which are connected."""

from __future__ import annotations

NAME = "boards"


def command() -> None:
    """List the known boards and the port each is connected to."""
    from poet_profiles.boards import board_names, load_board
    from rich.table import Table

    from ..connection.ports import ports, usb_id
    from .console import wide_console

    seen = ports()
    table = Table("board", "what it is", "RAM", "storage", "port")
    for name in board_names():
        board = load_board(name)
        here = [str(port.device) for port in seen if usb_id(port) in board.usb_ids]
        ram = f"{board.ram_bytes // 1024:,} KB"
        table.add_row(name, board.title, ram, board.storage, ", ".join(here) or "-")
    wide_console().print(table)
