"""The meters by name. A new one is a file in this folder and a line here (docs/adding_a_meter.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .meter import Meter


@dataclass(frozen=True)
class Kind:
    """One kind of instrument.

    Parameters
    ----------
    title : str
        One line for ``poet-harness meters``.
    windows : str
        How it finds an operator's window.
    open : callable
        Opens it from the text behind ``NAME:`` (empty: look for one) and the board.
    find : callable
        Addresses of those connected to this computer now.
    """

    title: str
    windows: str
    open: Callable[[str, Board], Meter]
    find: Callable[[], list[str]]


def _nominal(_address: str, board: Board) -> Meter:
    from .nominal import NominalMeter

    return NominalMeter(board)


def _recorded(path: str, board: Board) -> Meter:
    from pathlib import Path

    from .recorded import RecordedMeter

    if not path:
        raise UserError("--meter recorded:FILE needs the trace's file name")
    return RecordedMeter(Path(path), board)


KINDS: dict[str, Kind] = {
    "recorded": Kind("recorded:FILE, a trace (CSV) with a window column", "window column", _recorded, list),
    "nominal": Kind("no instrument: the board file's nominal currents", "device time", _nominal, list),
}


def open_meter(name: str | None, board: Board) -> Meter:
    """Open a meter by ``NAME`` or ``NAME:ADDRESS``; without a name, the one that is connected.

    Raises
    ------
    UserError
        If the name is unknown, or no meter or more than one is connected and none was named.
    """
    if name is None:
        found = [f"{kind}:{address}" for kind, entry in KINDS.items() for address in entry.find()]
        if len(found) != 1:
            raise UserError(
                f"{', '.join(found) or 'no'} power meter found; choose one with --meter (see poet-harness meters), "
                "or --meter nominal to reckon with the board file's currents",
                NO_DEVICE,
            )
        name = found[0]
    kind, _, address = name.partition(":")
    if kind not in KINDS:
        raise UserError(f"no meter named {kind!r}; known are {', '.join(KINDS)}")
    return KINDS[kind].open(address, board)
