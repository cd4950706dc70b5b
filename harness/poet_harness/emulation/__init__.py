# SPDX-License-Identifier: Apache-2.0
"""The boards without hardware: their images run in an emulator (docs/emulation.md)."""

from .bus import EmulationError
from .power import Trace
from .sdcard import CardFaults, CardTiming
from .serial_line import Faults, NoisyLine
from .twin import Twin, TwinSerial, open_twin

__all__ = [
    "CardFaults",
    "CardTiming",
    "EmulationError",
    "Faults",
    "NoisyLine",
    "Trace",
    "Twin",
    "TwinSerial",
    "open_twin",
]
