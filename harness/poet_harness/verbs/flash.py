# SPDX-License-Identifier: Apache-2.0
"""``poet-harness flash``: put a plan on a board, and read back that it is there."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .options import BoardName, Emulate, Json, Plan, Port, connection_option

if TYPE_CHECKING:
    from pathlib import Path

    from poet_profiles.boards import Board

NAME = "flash"

UploadPort = Annotated[
    str | None,
    connection_option(help="Port of the bootloader, on a board whose console (--port) is another; found if not given."),
]
Keep = Annotated[
    str, connection_option(metavar="card|flash", help="Where weights are committed: on the card, or in its own flash.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what lies on the board, a bootloader included.")]


def command(
    board: BoardName,
    plan: Plan,
    port: Port = None,
    emulate: Emulate = False,
    upload_port: UploadPort = None,
    force: Force = False,
    keep: Keep = "card",
    as_json: Json = False,
) -> None:
    """Build the firmware with a plan's headers, upload it, and read back the hashes of graph and schedule.

    With --keep flash a plan that uses no card needs none: weights are committed in the chip's own flash, behind the
    image, and so are those in slow memory, which go to a card otherwise. --force ends what another plan has there.

    A sketch's board loads the plan as it is: nothing is built.

    For the emulated board, and for this computer (the host, or a Linux board), the image is kept in the plan's folder.
    """
    from poet_profiles.boards import load_board
    from poet_profiles.errors import NO_DEVICE, UserError

    from ..firmware import CARD, FLASH, built, upload
    from ..plan_folder.plan import check_headers, read_plan
    from ..target.connect import connect, takes_image
    from ..target.upload_port import console_port
    from ..target.upload_port import upload_port as find_upload_port
    from ..training.ready import make_ready
    from ..upload_tools import refuse_several_probes, refuse_to_overwrite

    description = load_board(board)
    schedule = read_plan(plan)
    check_headers(plan, schedule)
    if keep not in (CARD, FLASH):
        raise UserError(f"--keep {keep}: there are {CARD}, {FLASH}")
    uses_card = schedule.kept or any(action.do in ("page_in", "page_out") for action in schedule.actions)
    if keep == FLASH and uses_card and description.memory is None:
        raise UserError(
            f"{plan}: has tensors on the card, which flash is not for; plan with --parameters ram and --no-paging, or "
            "leave --keep flash out"
        )
    if keep == FLASH and description.sketch:
        raise UserError(f"{board}: a sketch keeps weights in its own storage; leave --keep flash out")
    image = None
    if description.sketch:
        with connect(description, port, meter="nominal") as target:
            make_ready(target.device, schedule)
    elif takes_image(description, port, emulate):
        image = image_path(plan, description)
        with built(description, plan, keep) as made:
            shutil.copy2(made, image)
    elif description.kind == "linux" and port is None:
        raise UserError(f"{description.name}: a Linux board is not flashed; run its plan there with poet-plan execute")
    elif description.kind != "microcontroller":
        raise UserError(f"{port}: a program is not uploaded; run poet-harness flash on the board itself")
    else:
        port = console_port(description, port)
        refuse_several_probes(description)
        bootloader = find_upload_port(description, upload_port, port)
        if not force:
            refuse_to_overwrite(description)
        upload(description, plan, bootloader, keep)
        if description.upload.before_metering:
            print(f"before a measurement: {description.upload.before_metering}", file=sys.stderr)
    with connect(description, port, image=image, emulate=emulate, meter="nominal") as target:
        hello = target.device.hello
        if keep == FLASH and force:
            target.device.format()
        where = target.device.link.name
    if (hello.model, hello.schedule) != (schedule.graph_hash, schedule.schedule_hash):
        raise UserError(
            f"{where}: the upload did not take: the board has the graph {hello.model} and the schedule "
            f"{hello.schedule}, the plan {schedule.graph_hash} and {schedule.schedule_hash}; is --port the console of "
            "the same board?",
            NO_DEVICE,
        )
    if as_json:
        from dataclasses import asdict

        from poet_profiles.program.json_output import print_json

        print_json({"device": where, "image": image and str(image), **asdict(hello)})
        return
    print(f"{where}: graph {schedule.graph_hash}, firmware {hello.firmware}, {len(schedule.actions)} calls a step")


def flashed_image(plan: Path, board: Board) -> Path:
    """The image of a plan that was flashed."""
    from poet_profiles.errors import UserError

    image = image_path(plan, board)
    if not image.is_file():
        raise UserError(f"{image}: is missing; run poet-harness flash --board {board.name} --plan {plan} first")
    return image


def image_path(plan: Path, board: Board) -> Path:
    """Where the image of a plan is kept."""
    return plan / (f"{board.name}.elf" if board.kind == "microcontroller" else f"{board.name}.program")
