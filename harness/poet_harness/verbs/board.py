# SPDX-License-Identifier: Apache-2.0
"""``poet-harness board new``: a board file from what the board's sketch says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, Port

if TYPE_CHECKING:
    from ..protocol.device import Hello
    from ..protocol.link import Values

NAME = "board"
TIME = "1W"  # of a board whose power is not known: least energy is then least time
ARITHMETIC = (
    "its arithmetic is not that of IEEE 754, and poet's bits would be others; compile the sketch without -ffast-math, "
    "and on an RP2040 with Arduino's Mbed core, whose floats are not the boot ROM's"
)


def command(
    action: Annotated[str, typer.Argument(help="new: write a board file.")],
    name: Annotated[str, typer.Argument(help="The board's, as in --board NAME.")],
    port: Port = None,
    active_power: Annotated[str | None, typer.Option(help="Drawn while it computes: 0.3W, 80mW.")] = None,
    idle_power: Annotated[str | None, typer.Option(help="Drawn while it waits; 0 if not given.")] = None,
    voltage: Annotated[float, typer.Option(min=0.5, max=60.0, help="Of the supply, in volt.")] = 3.3,
    clock: Annotated[
        int | None, typer.Option(min=1, max=10**10, help="In hertz, where the sketch does not know it.")
    ] = None,
    baud: Annotated[int, typer.Option(min=1, max=10**8, help="Of the sketch's Serial.begin.")] = 1_000_000,
    out: Annotated[Path, typer.Option(help="Folder of the file.")] = Path("boards"),
    as_json: Json = False,
) -> None:
    """Ask the sketch PoetBoard at a port what its board is, and write the board's file.

    Files in ./boards, in the folders of POET_BOARDS and in the user's poet/boards are boards of that name.
    """
    from poet_profiles.boards import load_board
    from poet_profiles.errors import UserError
    from poet_profiles.files.whole_file import write_whole

    from ..ports import open_port
    from ..protocol.device import Device
    from ..protocol.link import Link

    if action != "new":
        raise UserError(f"{action}: there is new, which writes a board's file")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise UserError(f"{name!r}: a board's name is of lower-case letters, digits, - and _")
    if port is None:
        raise UserError("--port: say where the sketch answers, as in --port /dev/ttyACM0")
    if active_power is None and idle_power is not None:
        raise UserError("--idle-power: stands beside --active-power; give both, or neither")
    powers = _watts("--active-power", active_power or TIME), _watts("--idle-power", idle_power or "0W")
    if powers[0] <= powers[1]:
        raise UserError("--active-power: has to be above --idle-power, or no step would cost anything")
    remark = "by --active-power and --idle-power" if active_power else f"unknown: {TIME} stands for time"
    link = Link(open_port(port, baud), port)
    try:
        device = Device(link)
        if not device.hello.loads:
            raise UserError(f"{port}: what answers is {device.hello.board}, no sketch of poet-harness arduino")
        about = device.about()
        if about["arithmetic"] != "ieee":
            raise UserError(f"{port}: {ARITHMETIC}")
        device.forget()
        text = _file(name, port, device.greet(), about, powers, remark, voltage, clock, baud)
    finally:
        link.close()
    path = out / f"{name}.toml"
    write_whole(path, text)
    board = load_board(str(path))
    if as_json:
        from poet_profiles.program.json_output import print_json

        print_json({"file": str(path), **board.model_dump()})
        return
    print(f"wrote {path}: {board.title}")
    if active_power is None:
        print(f"without --active-power {TIME} stands for it: joules are seconds, and plans make steps short")


def _watts(option: str, text: str) -> float:
    from poet_profiles.errors import UserError

    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(m?)W", text)
    if found is None:
        raise UserError(f"{option} {text}: write a power as 0.3W or 80mW")
    return float(found[1]) * (1e-3 if found[2] else 1.0)


def _file(
    name: str,
    port: str,
    hello: Hello,
    about: Values,
    powers: tuple[float, float],
    remark: str,
    voltage: float,
    clock: int | None,
    baud: int,
) -> str:
    """The board file's text."""
    from poet_profiles.errors import UserError

    hertz = about.number("clock_hz") or clock
    if not hertz:
        raise UserError(f"{port}: the sketch does not know its clock; say it with --clock 240000000")
    core = about["core"]
    storage = "none" if "blocks" not in about else "memory" if about["memory"] == "1" else "sd-spi"
    lines = (
        f"# Written by poet-harness board new from what the sketch said: {about['compiler']} {about['optimised']},",
        f"# {about['operators']} operators, ticks of {hello.ticks_hz} Hz.",
        f'name = "{name}"',
        f'title = "{name} ({core}, {hertz / 1e6:g} MHz, {hello.ram_bytes // 1024} KB for plans)"',
        'kind = "microcontroller"',
        "sketch = true                   # it loads plans; nothing is built",
        f'core = "{core}"',
        f"clock_hz = {hertz}",
        f"fpu = {str(about['fpu'] == '1').lower()}",
        f"ram_bytes = {hello.ram_bytes}             # for plans, their own tables and frozen weights",
        f'storage = "{storage}"',
        f"dma_overlap = {str(about.get('overlaps') == '1').lower()}",
        f"voltage_v = {voltage}",
        f"baud = {baud}",
        "",
        f"[rails_a]                       # {remark}",
        f"cpu_active = {powers[0] / voltage:.6g}",
        f"cpu_idle = {powers[1] / voltage:.6g}",
        *(f"storage_{state} = 0.0" for state in ("idle", "read", "write")),
        "",
    )
    return "\n".join(lines)
