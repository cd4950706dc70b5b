# SPDX-License-Identifier: Apache-2.0
"""Calls single C functions on an emulated core and counts their cycles."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile
from poet_harness.emulation import nrf52840, samd21
from poet_harness.emulation.bus import Bus, Peripheral, Register
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine
from poet_harness.emulation.machine_state import NvicState
from unicorn import unicorn_const

HERE = Path(__file__).resolve().parent
FIRMWARE = HERE.parents[1] / "firmware"
OPERATOR_SOURCES = [path for part in ("kernels", "ops") for path in sorted((FIRMWARE / "src" / part).glob("*.c"))]
MEMORY = replace(nrf52840.MEMORY, ram_bytes=4 << 20)  # more than any board has, for layers that fit none
FLASH_WAIT = {"cortex-m4f": nrf52840.MEMORY.flash_wait, "cortex-m0plus": samd21.MEMORY.flash_wait}
MACHINE_FLAGS = {
    "cortex-m4f": ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "cortex-m0plus": ["-mcpu=cortex-m0plus", "-mthumb"],
}
# As in firmware/platforms: what is measured is what is flashed.
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections", "-Wall"]

Array = npt.NDArray[np.generic]


class _Done(Peripheral):
    """Stops the machine when the called function has returned."""

    REGISTERS: ClassVar[dict[str, Register]] = {"DONE": Register(0)}
    machine: Machine

    def write_done(self, _value: int) -> None:
        self.machine.pause()


class _Chip:
    """A core with nothing around it."""

    interrupts = ()

    def __init__(self) -> None:
        self.nvic = NvicState()
        self.done = _Done("DONE", 0x40000000)
        self.bus = Bus((self.done,))

    def attend(self) -> None:
        """There is no card."""

    def reset(self, _cause: str) -> None:
        pass


class EmulatedCore:
    """Functions linked into an image of their own.

    Parameters
    ----------
    core : str
        ``cortex-m4f`` or ``cortex-m0plus``.
    sources : iterable of Path
        C files.
    keep : iterable of str
        Functions and tables to look up by name; what they do not need is left out.
    build : Path
        Directory for the objects and the image.
    includes : iterable of Path
        Include directories besides the firmware's.
    defines : iterable of str
        Macros.
    options : iterable of str
        Further options of the compiler; they override the firmware's.
    flash_wait : int, optional
        Cycles that the core waits for a line of flash; if not given, those of the board with this core.
    """

    def __init__(
        self,
        core: str,
        sources: Iterable[Path],
        keep: Iterable[str],
        build: Path,
        includes: Iterable[Path] = (),
        defines: Iterable[str] = (),
        options: Iterable[str] = (),
        flash_wait: int | None = None,
    ) -> None:
        self.core = core
        flags = [*(f"-I{path}" for path in includes), *(f"-D{macro}" for macro in defines), *options]
        elf = _link(core, sources, keep, build, flags)
        with elf.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            self._symbols = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}
        memory = replace(MEMORY, flash_wait=FLASH_WAIT[core] if flash_wait is None else flash_wait)
        self.machine = Machine(core, memory, load_image(elf), 64_000_000)
        chip = _Chip()
        chip.done.machine = self.machine
        self.machine.connect(chip, lambda begin, end: None)
        self.machine.run(0)  # power comes on, and RAM is noise from here on
        self.free()

    def address(self, name: str) -> int:
        """Of a function (Thumb bit included) or a table."""
        return int(self._symbols[name])

    def has(self, name: str) -> bool:
        """Whether a function or a table is linked."""
        return name in self._symbols

    def free(self) -> None:
        """Give all operands' memory back."""
        self._next = self._symbols["operands"]

    def place(self, data: Array | bytes | int) -> int:
        """Put data, or so many undefined bytes, into RAM; their address."""
        content = b"\xff" * data if isinstance(data, int) else data if isinstance(data, bytes) else data.tobytes()
        address = self._next
        self._next += -(-len(content) // 8) * 8
        assert self.machine.in_ram(address, len(content)), "operands do not fit the emulated RAM"
        self.machine.write_memory(address, content)
        return address

    def words(self, values: Sequence[int]) -> int:
        """Put 32-bit words into RAM; their address."""
        return self.place(np.array([value & 0xFFFFFFFF for value in values], np.uint32))

    def call(self, function: str | int, *arguments: int) -> tuple[int, int]:
        """Call a function with integer arguments: its result, and the cycles it took with the call itself."""
        pointer = self.address(function) if isinstance(function, str) else function
        words = [pointer, *(argument & 0xFFFFFFFF for argument in arguments), *[0] * (6 - len(arguments))]
        self.machine.write_memory(self._symbols["call"], np.array(words, np.uint32).tobytes())
        self.machine.request_reset()
        before = self.machine.clock.now
        self.machine.run(1 << 62)
        result = int.from_bytes(self.machine.read_memory(self._symbols["call"] + 28, 4), "little", signed=True)
        return result, self.machine.clock.now - before

    @contextmanager
    def watched(self, entered: Callable[[int, int], None]) -> Iterator[None]:
        """Tell address and bytes of every block that runs meanwhile."""
        engine = self.machine._engine
        hook = engine.hook_add(unicorn_const.UC_HOOK_BLOCK, lambda _, address, size, __: entered(address, size))
        try:
            yield
        finally:
            engine.hook_del(hook)


def _link(core: str, sources: Iterable[Path], keep: Iterable[str], build: Path, options: Iterable[str]) -> Path:
    build.mkdir(parents=True, exist_ok=True)
    flags = [*MACHINE_FLAGS[core], *FLAGS, f"-I{FIRMWARE / 'include'}", *options]
    elf = build / f"{core}.elf"
    link = ["-nostartfiles", "-Wl,--gc-sections", "-Wl,--entry=0", f"-Wl,-T{HERE / 'bare.ld'}"]
    link += [f"-Wl,--undefined={name}" for name in keep]
    files = [str(path) for path in (HERE / "bare.c", *sources)]
    subprocess.run(["arm-none-eabi-gcc", *flags, *files, *link, "-o", str(elf)], check=True)
    return elf
