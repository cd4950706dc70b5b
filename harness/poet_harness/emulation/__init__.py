"""The boards without hardware: their images run in an emulator (docs/emulation.md)."""

from .bus import EmulationFault
from .power import Trace
from .sdcard import CardFaults
from .serial_line import Faults
from .twin import Twin, TwinSerial, open_twin

__all__ = ["CardFaults", "EmulationFault", "Faults", "Trace", "Twin", "TwinSerial", "open_twin"]
