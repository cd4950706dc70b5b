# SPDX-License-Identifier: Apache-2.0
"""``poet-harness bootloader``: have what runs on a board start its bootloader."""

from __future__ import annotations

from .options import BoardName, Json, Port

NAME = "bootloader"


def command(board: BoardName, port: Port = None, as_json: Json = False) -> None:
    """Start the bootloader of a board, and say at which serial port it appears.

    poet's firmware is asked at its console. A program of the maker's is asked by opening its USB port at 1,200 baud,
    where the bootloader listens to that: name that port with --port, or leave it out if there is one such port.
    """
    from poet_profiles.boards import load_board

    from ..target.upload_port import start_bootloader

    description = load_board(board)
    place = start_bootloader(description, port)
    if as_json:
        from poet_profiles.program.json_output import print_json

        print_json({"board": description.name, "bootloader": place})
        return
    print(f"{description.name}: its bootloader is at {place}")
