# SPDX-License-Identifier: Apache-2.0
"""The meters by name. A new one is a file in this folder and a line here (docs/adding_a_meter.md)."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .meter import Meter
from .nominal import PowerStates


@dataclass(frozen=True)
class MeterKind:
    """One kind of instrument.

    Parameters
    ----------
    title : str
        One line for ``poet-harness meters``.
    windows : str
        How it finds an operator's window.
    open : callable
        Opens it from the text after ``NAME:`` (empty: look for one) and the board.
    find : callable
        Addresses of those connected to this computer now.
    """

    title: str
    windows: str
    open: Callable[[str, Board], Meter]
    find: Callable[[], list[str]]


def _kind(title: str, windows: str, module: str, opener: str, **options: bool) -> MeterKind:
    """A kind whose module, with whatever it imports, is loaded only when it is needed."""

    def loaded() -> Any:
        return importlib.import_module(f".{module}", __package__)

    def open_it(address: str, board: Board) -> Meter:
        meter: Meter = getattr(loaded(), opener)(address, board, **options)
        return meter

    def find() -> list[str]:
        found: list[str] = loaded().find()
        return found

    return MeterKind(title, windows, open_it, find)


KINDS: dict[str, MeterKind] = {
    "ppk2": _kind("Nordic PPK2 in the supply line", "D0", "ppk2", "open_ppk2", supply=False),
    "ppk2-source": _kind("Nordic PPK2 as the board's supply", "D0", "ppk2", "open_ppk2", supply=True),
    "joulescope": _kind("Joulescope JS110, JS220 or JS320", "input 0", "joulescope", "open_joulescope"),
    "lpm01a": _kind("ST X-NUCLEO-LPM01A as the board's supply", "D7", "lpm01a", "open_lpm01a"),
    "ina": _kind("current sensor on this computer's I2C (INA219 ...)", "clock", "ina", "open_ina"),
    "jetson": _kind("INA3221 of a Jetson, rail by rail or the module's sum", "clock", "jetson", "open_jetson"),
    "pmic": _kind("rails of a Raspberry Pi 5's power chip, not its input", "clock", "pmic", "open_pmic"),
    "rapl": _kind("energy counters of x86 processor packages", "clock", "rapl", "open_rapl"),
    "nvml": _kind("energy counter of an NVIDIA GPU", "clock", "nvml", "open_nvml"),
    "recorded": _kind("recorded:FILE, a trace with a window column", "column", "recorded", "open_recorded"),
    "nominal": _kind("no instrument: the board file's currents", "device time", "nominal", "open_nominal"),
}
# Found without being asked for: an instrument beside the board, not a sensor of the computer the harness runs on.
INSTRUMENTS = ("ppk2", "joulescope", "lpm01a")
# The board has no supply before they are open: a PPK2's switch is off when it is plugged in.
IN_THE_SUPPLY = ("ppk2", "ppk2-source", "lpm01a")
# Sensors of this computer itself, the one that shows the most of it first. They show nothing of another one.
OF_THIS_COMPUTER = ("jetson", "pmic", "rapl", "nvml")
NOMINAL = "nominal"
WITHOUT_ADDRESS = (NOMINAL, "pmic")
# What a card may draw for a moment, beyond the mean of the board's file (docs/boards.md, Wiring).
CARD_MOMENT_A = 0.1


def open_meter(name: str | None, board: Board) -> Meter:
    """Open a meter by ``NAME`` or ``NAME:ADDRESS``; without a name, the one that is connected.

    Raises
    ------
    UserError
        If the name is unknown, or no meter or more than one is connected and none was named.
    """
    if name is None:
        found = _connected()
        if len(found) != 1:
            raise UserError(
                f"{', '.join(found) or 'no'} power meter found; choose one with --meter (see poet-harness meters), "
                "or --meter nominal to reckon with the board file's currents",
                NO_DEVICE,
            )
        name = found[0]
    kind, _, address = checked(name).partition(":")
    meter = KINDS[kind].open(address, board)
    if words := beyond(meter, board):
        print(f"{name}: {words}", file=sys.stderr)
    return meter


def _connected() -> list[str]:
    return [f"{kind}:{address}" for kind in INSTRUMENTS for address in KINDS[kind].find()]


def supply_meter(name: str | None, board: Board) -> Meter | None:
    """The meter, if the board gets its supply through it; to be opened before the board is spoken to."""
    found = _connected() if name is None else [name]
    through = [meter for meter in found if meter.partition(":")[0] in IN_THE_SUPPLY]
    return open_meter(through[0], board) if len(found) == 1 and through else None


def checked(name: str) -> str:
    """``NAME`` or ``NAME:ADDRESS`` as it is given, as far as one can see without touching an instrument."""
    kind, colon, address = name.partition(":")
    if kind not in KINDS:
        raise UserError(f"--meter {name!r}: no meter named {kind!r}; known are {', '.join(KINDS)}")
    if kind == "recorded" and not Path(address).is_file():
        raise UserError(f"--meter recorded:FILE needs the trace's file name; there is no file {address!r}")
    if colon and kind in WITHOUT_ADDRESS:
        raise UserError(f"--meter {name}: there is only one; write --meter {kind}")
    if colon and not address:
        raise UserError(f"--meter {name}: nothing stands after the colon; write --meter {kind}, or {kind}:ADDRESS")
    return name


def beyond(meter: Meter, board: Board) -> str:
    """What the board draws that the meter does not measure, by the board's file; empty if it measures all."""
    drawn = board.drawn_a
    card_a = max(drawn.storage_read, drawn.storage_write)
    if board.has_card:
        card_a = max(card_a, CARD_MOMENT_A)
    awake_a = drawn.cpu_active + drawn.storage_idle
    states = {"awake": awake_a, "when it moves pages": drawn.cpu_active + card_a}
    above = [f"{words} {current_a * 1e3:.0f} mA" for words, current_a in states.items() if current_a > meter.most_a]
    if not above:
        return ""
    pages_alone = awake_a <= meter.most_a
    cure = "profile --no-pages leaves page transfers out" if pages_alone else "take a meter for larger currents"
    return (
        f"measures up to {meter.most_a * 1e3:.3g} mA, and {board.name} draws {' and '.join(above)} or so (by its board "
        f"file; a card for a moment). Windows above the limit are refused; {cure}"
    )


def board_meter(name: str | None, board: Board, runs_agent: bool, here: bool) -> Meter:
    """The meter of a board at a port, or of this computer as a board.

    Without a name: the instrument that is connected; else, for the agent on this computer, its own sensor; else, for
    any agent, the power states of the board file.

    Parameters
    ----------
    runs_agent : bool
        The board runs the agent, or a sketch: its times are measured whatever the meter.
    here : bool
        The board is this computer.

    Raises
    ------
    UserError
        As :func:`open_meter` does, and for a sensor of this computer where the board is another one.
    """
    kind = (name or "").partition(":")[0]
    if kind in OF_THIS_COMPUTER and not here:
        raise UserError(
            f"--meter {name}: shows this computer, and {board.name} is at the other end of --port; run poet-harness on "
            "the board, or take an instrument in its supply"
        )
    if not runs_agent or name not in (None, NOMINAL):
        return open_meter(name, board)
    if name is None and any(KINDS[kind].find() for kind in INSTRUMENTS):
        return open_meter(None, board)
    own = _own_sensor(board) if name is None and here else None
    return own or PowerStates(board)


def _own_sensor(board: Board) -> Meter | None:
    """The first sensor of this computer's processor or board that can be read; a GPU's shows neither."""
    for kind in OF_THIS_COMPUTER[:-1]:
        with contextlib.suppress(UserError):
            if KINDS[kind].find():
                return KINDS[kind].open("", board)
    return None
