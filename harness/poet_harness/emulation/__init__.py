# SPDX-License-Identifier: Apache-2.0
"""The boards without hardware: their images run in an emulator (docs/emulation.md)."""

from .bus import EmulationError
from .emulated_board import EmulatedBoard, EmulatedSerial, open_emulated_board
from .power import Trace
from .sdcard import CardFaults, CardTiming
from .serial_line import Faults, NoisyLine

__all__ = [
    "CardFaults",
    "CardTiming",
    "EmulatedBoard",
    "EmulatedSerial",
    "EmulationError",
    "Faults",
    "NoisyLine",
    "Trace",
    "open_emulated_board",
]
