# SPDX-License-Identifier: Apache-2.0
"""What a chip is put into: CPU, card, supply and serial line of one emulated board."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poet_profiles.boards import Board, pin_number

from .clock import Clock
from .machine import Machine
from .power import Power
from .sdcard import SdCard
from .serial_line import SerialLine
from .variation import Variation


@dataclass(frozen=True)
class Parts:
    """The parts of a board around its peripherals."""

    board: Board
    variation: Variation
    machine: Machine
    card: SdCard
    power: Power
    line: SerialLine
    starved: Callable[[], None]  # called where the firmware waits for the host
    seed: int

    @property
    def clock(self) -> Clock:
        """Emulated time."""
        return self.machine.clock

    def pins(self, *names: str) -> tuple[int, ...]:
        """Numbers of the pins that the board's file names so; a pin is its port times 32 and its place there."""
        return tuple(pin_number(getattr(self.board.pins, name)) for name in names)
