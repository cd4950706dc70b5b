# SPDX-License-Identifier: Apache-2.0
"""No instrument at all: energy as the board file's nominal currents times the device's own time."""

from __future__ import annotations

from collections.abc import Sequence

from poet_profiles.boards import Board
from poet_profiles.profile import NO_SENSOR

from .meter import Activity, Mark, Meter, Window


class NominalMeter(Meter):
    """Gives an order of magnitude where no meter is connected; its rows are never called ``measured``."""

    source = "emulated"
    senses = False
    shortest_window_s = 0.01

    def __init__(self, board: Board) -> None:
        self.identity = f"nominal currents of {board.name}.toml"
        self.voltage_v = board.voltage_v
        rails = board.drawn_a
        compute = rails.cpu_active + rails.storage_idle
        self._current_a = {
            Activity.COMPUTE: compute,
            Activity.STEP: compute,
            Activity.IDLE: rails.cpu_idle + rails.storage_idle,
            Activity.PAGE_IN: rails.cpu_active + rails.storage_read,
            Activity.PAGE_OUT: rails.cpu_active + rails.storage_write,
        }

    def begin(self) -> None:
        pass

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        return [
            Window(mark.device_s, mark.device_s * self._current_a[mark.activity] * self.voltage_v, samples=1)
            for mark in marks
        ]


class PowerStates(NominalMeter):
    """The same for a real machine without a sensor: its times are measured, and each row says what its energy is."""

    source = "measured"

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self.identity = f"{NO_SENSOR}: energy by the power states of {board.name}.toml"


def find() -> list[str]:
    """Nothing to find."""
    return []


def open_nominal(_address: str, board: Board) -> NominalMeter:
    """Reckon with the currents of the board's file."""
    return NominalMeter(board)
