"""``poet-harness flash``: put a plan on a board, and read back that it is there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from .options import BoardName, Emulate, Plan, Port

if TYPE_CHECKING:
    from pathlib import Path

    from poet_profiles.boards import Board

NAME = "flash"


def command(board: BoardName, plan: Plan, port: Port = None, emulate: Emulate = False) -> None:
    """Build the firmware with a plan's headers, upload it, and read back the hashes of graph and schedule.

    For the emulated board, and for this computer (the host, or a Linux board), the image is kept in the plan's folder.
    """
    from poet_profiles.boards import load_board
    from poet_profiles.errors import UserError

    from ..connection.target import connect, takes_image
    from ..firmware import build, upload
    from ..training.plan import read_plan
    from ..training.trainer import check_flashed

    description = load_board(board)
    schedule = read_plan(plan)
    image = None
    if takes_image(description, port, emulate):
        image = image_path(plan, description)
        shutil.copy2(build(description, plan), image)
    elif description.kind != "microcontroller":
        raise UserError(f"{port}: a program is not uploaded; run poet-harness flash on the board itself")
    else:
        upload(description, plan, port)
    with connect(description, port, image=image, emulate=emulate, meter="nominal") as target:
        check_flashed(target.device, schedule)
        hello = target.device.hello
        where = target.device.link.name
    print(f"{where}: graph {schedule.graph_hash}, firmware {hello.firmware}, {len(schedule.actions)} schedule steps")


def flashed_image(plan: Path, board: Board) -> Path:
    """The image of a plan that was flashed.

    Raises
    ------
    UserError
        If it was not.
    """
    from poet_profiles.errors import UserError

    image = image_path(plan, board)
    if not image.is_file():
        raise UserError(f"{image}: is missing; run poet-harness flash --board {board.name} --plan {plan} first")
    return image


def image_path(plan: Path, board: Board) -> Path:
    """Where the image of a plan is kept."""
    return plan / (f"{board.name}.elf" if board.kind == "microcontroller" else f"{board.name}.program")
