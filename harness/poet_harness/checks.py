# SPDX-License-Identifier: Apache-2.0
"""What the harness finds on this computer, and the cure for what it does not find."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import board_names, load_board
from poet_profiles.errors import UserError


@dataclass(frozen=True)
class Check:
    """One thing to have: whether it is there, what it is needed for, and how to get it."""

    name: str
    present: bool
    needed_for: str
    cure: str
    found: str = ""


PROGRAMS = (
    ("arm-none-eabi-gcc", "building the firmware", "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"),
    ("gcc", "building for this computer", "apt install gcc libc6-dev"),
    ("ssh", "boards behind ssh://", "apt install openssh-client"),
)
MODULES = (
    ("platformio", "building the firmware", "pip install platformio"),
    ("unicorn", "--emulate", "pip install 'poet-edge[emulator]'"),
    ("capstone", "--emulate", "pip install 'poet-edge[emulator]'"),
    ("elftools", "--emulate", "pip install 'poet-edge[emulator]'"),
    ("pyjoulescope_driver", "--meter joulescope", "pip install 'poet-edge[joulescope]'"),
    ("pynvml", "--meter nvml", "pip install 'poet-edge[nvml]'"),
)


def checks() -> Iterator[Check]:
    """Every check, in the order in which a newcomer meets the things."""
    for name, needed_for, cure in MODULES:
        yield Check(f"Python package {name}", importlib.util.find_spec(name) is not None, needed_for, cure, needed_for)
    for name, needed_for, cure in PROGRAMS:
        path = shutil.which(name)
        yield Check(name, path is not None, needed_for, cure, path or "")
    yield _c_compiler()
    yield _firmware()
    yield from _uploads()
    yield from _ports()


def _uploads() -> Iterator[Check]:
    """One way a board is enough."""
    from .upload_tools import usable, what_is_missing

    for name in board_names():
        board = load_board(name)
        if board.upload.tools:
            ways = ", ".join(f"{tool.name} ({place})" for tool, place in usable(board))
            yield Check(f"upload to {name}", bool(ways), f"flash --board {name}", what_is_missing(board), ways)


def _c_compiler() -> Check:
    from poet_profiles.native import NativeError, compiler

    try:
        found = shlex.join(compiler())
    except NativeError:
        found = ""
    needed_for = "the optimiser's engine, unless poet's wheel brought it; --emulate"
    return Check("C compiler (cc, or what CC names)", bool(found), needed_for, "apt install gcc libc6-dev", found)


def _firmware() -> Check:
    from .firmware import find_project

    try:
        found = str(find_project())
    except UserError:
        found = ""
    return Check("firmware sources", bool(found), "flash", "install poet-edge anew: its wheel holds them", found)


def _ports() -> Iterator[Check]:
    from .ports import PERMISSION, ports, usb_id

    for port in ports():
        if usb_id(port):
            usable = Path(port.device).exists() and os.access(port.device, os.R_OK | os.W_OK)
            yield Check(
                f"port {port.device}", usable, "talking to the board", PERMISSION, f"{usb_id(port)} {port.description}"
            )
