# SPDX-License-Identifier: Apache-2.0
"""Peripherals on the bus: registers by name, and a clear word about every access that the emulation does not model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from .library import address_of
from .machine_state import PENDING_AT, Interrupt


class EmulationError(Exception):
    """The firmware did something that the emulated board does not know, or that would hang or fault a real one."""


@dataclass(frozen=True)
class Register:
    """One register: offset in its peripheral, width in bytes, value after reset."""

    offset: int
    width: int = 4
    reset: int = 0


class Peripheral:
    """A peripheral whose registers are named as in the vendor's SVD file.

    A register ``NAME`` is plain memory unless the class has a method ``read_name`` or ``write_name``.
    """

    REGISTERS: ClassVar[dict[str, Register]]

    def __init__(self, name: str, base: int) -> None:
        self.name = name
        self.base = base
        self.values: dict[str, int] = {}
        self.power_on()

    def power_on(self) -> None:
        """Every register as after a reset."""
        self.values = {name: register.reset for name, register in self.REGISTERS.items()}


class NativePeripheral(Peripheral):
    """One that has registers which C handles, since they are touched all the time.

    What C leaves to Python it cannot do: such a register without a method is refused.

    Attributes
    ----------
    FUNCTIONS : str
        What the names of its functions in C begin with.
    NATIVE : container of str
        Names of those registers.
    state : ctypes.Structure
        What the functions work on.
    """

    FUNCTIONS: ClassVar[str]
    NATIVE: ClassVar[Container[str]]
    state: ctypes.Structure

    def interrupt(self, number: int) -> Interrupt:
        """The interrupt that it raises."""
        return Interrupt(ctypes.addressof(self.state), PENDING_AT(address_of(f"{self.FUNCTIONS}_pending_at")), number)

    def refuse(self, register: str) -> NoReturn:
        """Fault: something is missing that comes first."""
        raise EmulationError(f"{self.name} is used before it is started ({register})")


Read = Callable[[], int]
Write = Callable[[int], None]


class Bus:
    """All peripherals of a chip, by address."""

    PAGE = 0x1000

    def __init__(self, peripherals: tuple[Peripheral, ...]) -> None:
        self.peripherals = peripherals
        self._reads: dict[tuple[int, int], Read] = {}
        self._writes: dict[tuple[int, int], Write] = {}
        for peripheral in peripherals:
            for name, register in peripheral.REGISTERS.items():
                key = (peripheral.base + register.offset, register.width)
                self._reads[key] = _reader(peripheral, name)
                self._writes[key] = _writer(peripheral, name)

    @property
    def pages(self) -> list[int]:
        """Start addresses of the pages that hold registers."""
        return sorted({address // self.PAGE * self.PAGE for address, _ in self._reads})

    def read(self, address: int, width: int) -> int:
        """Read a register.

        Raises
        ------
        EmulationError
            If none is modelled at that address and width.
        """
        read = self._reads.get((address, width))
        if read is None:
            raise EmulationError(f"read of {width} bytes at 0x{address:08X}: {self._nearby(address)}")
        return read()

    def write(self, address: int, width: int, value: int) -> None:
        """Write a register; raises like `read`."""
        write = self._writes.get((address, width))
        if write is None:
            raise EmulationError(f"write of {width} bytes at 0x{address:08X}: {self._nearby(address)}")
        write(value)

    def power_on(self) -> None:
        """Reset every peripheral."""
        for peripheral in self.peripherals:
            peripheral.power_on()

    def _nearby(self, address: int) -> str:
        below = [peripheral for peripheral in self.peripherals if peripheral.base <= address]
        if not below:
            return "no peripheral is modelled there"
        nearest = max(below, key=lambda peripheral: peripheral.base)
        return f"no such register is modelled ({nearest.name} + 0x{address - nearest.base:X})"


def _reader(peripheral: Peripheral, name: str) -> Read:
    method: Read | None = getattr(peripheral, f"read_{method_name(name)}", None)
    if method is not None:
        return method
    if isinstance(peripheral, NativePeripheral) and name in peripheral.NATIVE:
        return lambda: peripheral.refuse(name)
    return lambda: peripheral.values[name]


def _writer(peripheral: Peripheral, name: str) -> Write:
    method: Write | None = getattr(peripheral, f"write_{method_name(name)}", None)
    if method is not None:
        return method
    if isinstance(peripheral, NativePeripheral) and name in peripheral.NATIVE:
        return lambda _value: peripheral.refuse(name)

    def store(value: int) -> None:
        peripheral.values[name] = value

    return store


def method_name(register: str) -> str:
    """``PSEL.TXD`` and ``CC[1]`` as parts of a Python name."""
    return register.lower().replace(".", "_").replace("[", "").replace("]", "")
