# SPDX-License-Identifier: Apache-2.0
"""Flash controllers: caches, wait states, erasing and programming. What reading costs is counted in C."""

from __future__ import annotations

from typing import ClassVar

from ..bus import EmulationError, Peripheral, Register
from ..parts import Parts


class OwnFlash(Peripheral):
    """A controller that erases and programs the flash that the program runs from: the core stands still meanwhile.

    What a real flash does not bear is refused: a word that is programmed twice, or in a unit whose erase was cut.

    Attributes
    ----------
    operations : int
        Erases and programs so far.
    cut_at : int or None
        In which of them the power fails.
    torn : {"nothing", "half", "whole", "noise"}
        What that one leaves.
    erases : dict
        How often each unit was erased, by its address.
    """

    UNIT: ClassVar[int]
    ERASE_S: ClassVar[float]

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._machine, self._clock = parts.machine, parts.clock
        self._machine.store_to_flash = self.store
        self.operations = 0
        self.cut_at: int | None = None
        self.torn = "half"
        self.erases: dict[int, int] = {}
        self._programmed: set[int] = set()
        self._begin = self._end = parts.machine.flash_end
        super().__init__(name, base)

    def power_on(self) -> None:
        """See `Peripheral`."""
        super().power_on()
        self._dead = False

    @property
    def written(self) -> bytes:
        """The flash's end, from where the program has changed it."""
        return self._machine.read_memory(self._begin, self._end - self._begin)

    def put_back(self, written: bytes) -> None:
        """What it had when the board was closed, unless the image now reaches there."""
        if self._machine.image_end <= self._end - len(written):
            self._begin = self._end - len(written)
            self._machine.write_memory(self._begin, written)

    def store(self, address: int, width: int, value: int) -> bool:
        """Whether a store of the program's is taken."""
        raise NotImplementedError

    def _erase(self, address: int) -> None:
        unit = range(address, address + self.UNIT, 4)
        if address % self.UNIT:
            raise EmulationError(f"{self.name}: 0x{address:08X} is not where a unit begins that can be erased")
        if self._change(address, b"\xff" * self.UNIT, self._machine.read_memory(address, self.UNIT), self.ERASE_S):
            self._programmed.difference_update(unit)
        else:
            self._programmed.update(unit)
        self.erases[address] = self.erases.get(address, 0) + 1

    def _program(self, address: int, data: bytes, seconds: float) -> None:
        before = self._machine.read_memory(address, len(data))
        words = range(address, address + len(data), 4)
        if self._dead:
            return
        if self._programmed.intersection(words) or before.strip(b"\xff"):
            raise EmulationError(f"{self.name}: 0x{address:08X} is programmed and was not erased")
        if self._change(address, data, data, seconds) or self.torn != "nothing":
            self._programmed.update(words)

    def _change(self, address: int, new: bytes, noise: bytes, seconds: float) -> bool:
        """Whether it was changed whole: the power may fail in it, and then nothing happens any more."""
        if self._dead:
            return False
        before, half = self._machine.read_memory(address, len(new)), len(new) // 2
        self._dead = self.operations == self.cut_at
        self.operations += 1
        self._begin = min(self._begin, address)
        if self._dead:
            self._machine.cut_power()
            torn = {"nothing": before, "half": new[:half] + before[half:], "noise": bytes(b | 0x5A for b in noise)}
            new = torn.get(self.torn, new)
        self._machine.write_memory(address, new)
        self._clock.pass_by(seconds)
        return not self._dead


class NordicFlash(OwnFlash):
    """nRF52840, 4.3 NVMC. A store without CONFIG.WEN is a fault."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "READY": Register(0x400, reset=1),
        "CONFIG": Register(0x504),
        "ERASEPAGE": Register(0x508),
        "ICACHECNF": Register(0x540),
    }
    UNIT = 4096
    ERASE_S = 85e-3
    WORD_S = 41e-6

    def store(self, address: int, width: int, value: int) -> bool:
        """See `OwnFlash`."""
        if self.values["CONFIG"] != 1 or width != 4 or address % 4:
            return False
        self._program(address, value.to_bytes(4, "little"), self.WORD_S)
        return True

    def write_erasepage(self, address: int) -> None:
        """ERASEPAGE."""
        if self.values["CONFIG"] != 2:
            raise EmulationError("NVMC: a page is erased without CONFIG.EEN")
        self._erase(address)


class SamFlash(OwnFlash):
    """SAM D21, 22 NVMCTRL. Stores fill the buffer of a page, with CTRLB.MANW until a command writes it."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CTRLA": Register(0x0, 2),
        "CTRLB": Register(0x4),
        "INTFLAG": Register(0x14, 1, reset=1),
        "ADDR": Register(0x1C),
    }
    UNIT = 256
    ERASE_S = 6e-3
    PAGE, PAGE_S = 64, 2.5e-3

    def power_on(self) -> None:
        """See `Peripheral`."""
        super().power_on()
        self._page, self._buffer = 0, bytearray(b"\xff" * self.PAGE)

    def store(self, address: int, width: int, value: int) -> bool:
        """See `OwnFlash`."""
        if width < 2 or not self.values["CTRLB"] & 1 << 7:
            return False
        self._page, place = address // self.PAGE * self.PAGE, address % self.PAGE
        self._buffer[place : place + width] = value.to_bytes(width, "little")
        return True

    def write_ctrla(self, command: int) -> None:
        """CTRLA."""
        if command >> 8 != 0xA5:
            raise EmulationError("NVMCTRL: a command without its key")
        if command & 0x7F == 0x02:
            self._erase(2 * self.values["ADDR"])
        elif command & 0x7F == 0x04:
            self._program(self._page, bytes(self._buffer), self.PAGE_S)
        if command & 0x7F in (0x04, 0x44):
            self._buffer[:] = b"\xff" * self.PAGE


class StmFlash(Peripheral):
    """STM32F411, 3.8 Flash interface."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ACR": Register(0x00)}

    @property
    def latency(self) -> int:
        """Wait states."""
        return self.values["ACR"] & 0xF
