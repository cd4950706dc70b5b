# SPDX-License-Identifier: Apache-2.0
"""The CPU with its memory: runs an image in the Unicorn engine and counts its cycles."""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from poet_profiles.boards import SlowMemory
from poet_profiles.errors import UserError
from poet_profiles.files.cache import cache_folder
from unicorn import arm_const, unicorn_const
from unicorn.unicorn_py3.unicorn import Uc, UcContext, UcError

from . import cycles
from .bus import Bus, EmulationError, NativePeripheral
from .clock import Clock
from .counter import attach, empty_cache, make_counter
from .image import Image
from .library import address_of, compiled
from .machine_state import (
    FAULT,
    LOAD,
    RAN,
    SLEEPS,
    STORE,
    VECTOR,
    Interrupt,
    NvicState,
    PageState,
    machine_state,
    map_page,
)
from .variation import Cause, Variation

PROT_CODE = unicorn_const.UC_PROT_READ | unicorn_const.UC_PROT_EXEC
PROT_DATA = unicorn_const.UC_PROT_READ | unicorn_const.UC_PROT_WRITE
FOREVER = 0xFFFFFFFF
EXCEPTION_RETURN = 0xFFFFFFF9
HARD_FAULT = 3
FLOAT_FLAGS = 0x9F
# CFSR (Armv7-M Architecture Reference Manual, B3.2.15).
FAULT_STATUS_REGISTER = 0xE000ED28
FETCH_ERROR, ACCESS_ERROR, STACKING_ERROR, UNDEFINED_INSTRUCTION = 1 << 8, 1 << 9, 1 << 12, 1 << 16
FAULT_STATUS = {
    unicorn_const.UC_ERR_READ_UNMAPPED: ACCESS_ERROR,
    unicorn_const.UC_ERR_WRITE_UNMAPPED: ACCESS_ERROR,
    unicorn_const.UC_ERR_WRITE_PROT: ACCESS_ERROR,
    unicorn_const.UC_ERR_FETCH_UNMAPPED: FETCH_ERROR,
    unicorn_const.UC_ERR_FETCH_PROT: FETCH_ERROR,
}
CPU_MODELS = {
    "cortex-m4f": arm_const.UC_CPU_ARM_CORTEX_M4,
    "cortex-m0plus": arm_const.UC_CPU_ARM_CORTEX_M0,
}


@dataclass(frozen=True)
class Memory:
    """Flash and RAM of a chip, and where the firmware's vector table must lie.

    ``flash_wait`` is how many cycles a fetch or a read waits for a line of 8 bytes that is not among the eight of the
    flash's cache; 0 where the flash never makes the core wait.
    """

    vectors: int
    flash_begin: int
    flash_bytes: int
    ram_begin: int
    ram_bytes: int
    flash_wait: int = 0


class Surroundings(Protocol):
    """What the CPU asks of the chip around it."""

    bus: Bus
    nvic: NvicState
    interrupts: Sequence[Interrupt]

    def attend(self) -> None:
        """Called before each run: what the host has changed counts from here on."""
        ...

    def reset(self, cause: Cause) -> None:
        """Every peripheral as after a reset."""
        ...


class Machine:
    """One CPU.

    Parameters
    ----------
    core : str
        ``cortex-m4f`` or ``cortex-m0plus``.
    memory : Memory
        Where flash and RAM lie.
    image : Image
        What is flashed.
    hz : int
        CPU clock.
    seed : int
        RAM wakes up with noise made from this number.
    variation : Variation
        Whether faults are taken.

    Raises
    ------
    UserError
        If the image is linked for another board, or there is no C compiler.
    ValueError
        If a core with IT blocks is to wait for its flash.
    """

    def __init__(
        self,
        core: str,
        memory: Memory,
        image: Image,
        hz: int,
        seed: int = 0,
        variation: Variation | None = None,
    ) -> None:
        self._has_fpu = core != "cortex-m0plus"
        self._takes_faults = (variation or Variation()).faults == "taken"
        self._core = cycles.CORES[core]
        self._memory = memory
        self._image = image
        self._chip: Surroundings | None = None
        self._sleeps: Callable[[int, int], None] = lambda begin, end: None
        self.store_to_flash: Callable[[int, int, int], bool] = lambda address, width, value: False
        self._failure: BaseException | None = None
        self._noise = random.Random(seed)
        self._slow_memory = bytearray()
        self._ram_lost = True
        self._reset_cause: Cause = "power"
        if memory.flash_wait and core != "cortex-m0plus":
            raise ValueError(f"{core}: has IT blocks, in which the engine loses instructions if reads are watched")
        self._library = compiled()
        self._pages: list[PageState] = []  # the engine holds their addresses
        self._engine: Any = Uc(unicorn_const.UC_ARCH_ARM, unicorn_const.UC_MODE_THUMB)
        # Not UC_MODE_MCLASS: with it the engine ignores the CPU model.
        self._engine.ctl_set_cpu_model(CPU_MODELS[core])
        self.flash_end = memory.flash_begin + memory.flash_bytes
        self.image_end = end = max(address + len(data) for address, data in image.segments)
        self._load()
        begin = image.entry_table & ~1
        self._prefix = _prefix_sums(self._core, image, begin, end)
        self._counter = make_counter(self._prefix, begin, end, self._core.refill, memory.flash_wait)
        self._count_cycles()
        self.clock = Clock(self._counter, hz)
        self._before_handler = UcContext(self._engine._uch, self._engine._arch, self._engine._mode)
        self.state = machine_state(self._engine, self._counter, self._before_handler)
        self.state.reset_wanted = True
        self.state.registers.FPSCR = arm_const.UC_ARM_REG_FPSCR if self._has_fpu else 0
        self.state.ram_begin, self.state.ram_end = memory.ram_begin, memory.ram_begin + memory.ram_bytes
        self.state.entry_table = image.entry_table
        self.state.frame_bytes = self._core.frame_bytes
        self.state.entry_cycles, self.state.exit_cycles = self._core.entry, self._core.exit

    @property
    def timing_model(self) -> str:
        """Name and version of the cycle table."""
        return self._core.version

    def _count_cycles(self) -> None:
        memory = self._memory
        attach(self._engine, self._counter, (memory.flash_begin, memory.flash_begin + memory.flash_bytes - 1))

    def map_slow_memory(self, memory: SlowMemory, moves: Callable[[int, int, bool], None]) -> None:
        """Further RAM, for which the core waits; ``moves`` hears from when to when, and whether it is written."""
        content, hz = bytearray(memory.bytes), self.clock.hz
        self._slow_memory = content

        def wait(width: int, writes: bool) -> None:
            begin = self.clock.now
            self.clock.advance_to(begin + max(1, round(width * hz / memory.bytes_per_s)))
            moves(begin, self.clock.now, writes)

        def load(_engine: Any, offset: int, width: int, _data: Any) -> int:
            wait(width, False)
            return int.from_bytes(content[offset : offset + width], "little")

        def store(_engine: Any, offset: int, width: int, value: int, _data: Any) -> None:
            wait(width, True)
            content[offset : offset + width] = value.to_bytes(8, "little")[:width]

        self._engine.mmio_map(memory.begin, memory.bytes, load, None, store, None)

    def connect(self, chip: Surroundings, sleeps: Callable[[int, int], None]) -> None:
        """Put the peripherals on the bus.

        Parameters
        ----------
        sleeps : callable
            Called with begin and end of a sleep of the CPU that is not kept for `take_sleeps`.
        """
        self._chip = chip
        self._sleeps = sleeps
        self.state.nvic = ctypes.pointer(chip.nvic)
        self.state.interrupts[: len(chip.interrupts)] = chip.interrupts
        self.state.interrupt_count = len(chip.interrupts)
        for page in chip.bus.pages:
            self._map(chip.bus, page)

    def take_sleeps(self) -> list[tuple[int, int]]:
        """Begin and end of the sleeps since the last call, in order."""
        count, self.state.sleep_count = self.state.sleep_count, 0
        times = np.frombuffer(self.state.sleeps, np.uint64, 2 * count).tolist()
        return list(zip(times[::2], times[1::2], strict=True))

    def request_reset(self, cause: Cause = "pin") -> None:
        """Reset at the end of the block under way."""
        self._reset_cause = cause
        self.state.reset_wanted = True
        self._counter.limit = 0

    def cut_power(self) -> None:
        """Power fails and comes back: a reset, and RAM wakes up with other noise than before."""
        self._ram_lost = True
        self.request_reset("power")

    def pause(self) -> None:
        """Leave `run` at the end of the block under way."""
        self.state.pause_wanted = True
        self._counter.limit = 0

    def interrupt_at(self, cycles: int) -> None:
        """A peripheral will raise its interrupt then: look no later."""
        self._counter.limit = min(self._counter.limit, cycles)

    @property
    def float_flags(self) -> int:
        """Exception flags of the FPU that are set (FPSCR); 0 without one."""
        return self._engine.reg_read(arm_const.UC_ARM_REG_FPSCR) & FLOAT_FLAGS if self._has_fpu else 0

    def read_memory(self, address: int, size: int) -> bytes:
        """What a bus master other than the CPU reads."""
        return bytes(self._engine.mem_read(address, size))

    def write_memory(self, address: int, data: bytes) -> None:
        """What a bus master other than the CPU writes."""
        self._engine.mem_write(address, data)

    def in_ram(self, address: int, size: int) -> bool:
        """Whether a range lies in RAM."""
        return self._memory.ram_begin <= address and address + size <= self._memory.ram_begin + self._memory.ram_bytes

    def run(self, at_most_cycles: int) -> None:
        """Run until `pause` is called or about that many cycles have passed.

        Raises
        ------
        EmulationError
            If the firmware does what the emulation does not know or a real board would not survive.
        """
        until = self.clock.now + at_most_cycles
        self.state.pause_wanted = False
        assert self._chip is not None
        self._chip.attend()
        done = False
        while not done:
            if self.state.reset_wanted:
                self._reset(self._reset_cause)
            done = self._turn(until)
            if self._failure is not None:
                failure, self._failure = self._failure, None
                self.state.failed = False
                raise failure

    def _turn(self, until: int) -> bool:
        """Run the engine until something is to be done here. Whether all is done."""
        outcome = self._library.machine_run(ctypes.byref(self.state), ctypes.c_uint64(until))
        if self._failure is not None:
            return True
        self._check_strayed()
        if outcome == FAULT:
            self._handle_fault(UcError(self.state.fault))
            return bool(self.state.pause_wanted) or self.clock.now >= until
        if outcome == SLEEPS:
            self._sleep()
        elif outcome == VECTOR:
            self._refuse_vector()
        return bool(outcome == RAN)

    def _next_interrupt(self) -> tuple[int, int] | None:
        """When the next interrupt that is enabled is or will be pending, in cycles, and its number; or None."""
        when, number = ctypes.c_uint64(), ctypes.c_uint32()
        found = self._library.machine_next_interrupt(ctypes.byref(self.state), ctypes.byref(when), ctypes.byref(number))
        return (when.value, number.value) if found else None

    def _vector(self, number: int) -> int:
        """The address of an exception's handler."""
        return int.from_bytes(self.read_memory(self._image.entry_table + 4 * number, 4), "little")

    def _refuse_vector(self) -> None:
        pending = self._next_interrupt()
        assert pending is not None
        raise EmulationError(
            f"interrupt {pending[1]} is enabled, and its vector is 0x{self._vector(16 + pending[1]):08X}"
        )

    def _check_strayed(self) -> None:
        if self._counter.strayed:
            place = self._counter.strayed & ~1
            self._failure = EmulationError(f"the program jumped to 0x{place:08X}, outside of the image")

    def _handle_fault(self, error: UcError) -> None:
        if self._takes_faults:
            self._take_fault(error)
        else:
            place = self._engine.reg_read(arm_const.UC_ARM_REG_PC)
            self._failure = EmulationError(f"{error} at pc 0x{place:08X}")

    def _take_fault(self, error: UcError) -> None:
        """HardFault as the Architecture Reference Manuals have it (B1.5).

        A frame that falls outside of RAM is lost. An Armv7-M core enters the handler all the same and notes it; of
        Armv6-M no manual promises that, so here it locks up.
        """
        engine, words = self._engine, ("R0", "R1", "R2", "R3", "R12", "LR", "PC", "XPSR")
        stack = engine.reg_read(arm_const.UC_ARM_REG_SP) - self._core.frame_bytes & ~7
        frame = np.array([engine.reg_read(getattr(arm_const, f"UC_ARM_REG_{word}")) for word in words], "<u4")
        status = FAULT_STATUS.get(error.errno, UNDEFINED_INSTRUCTION)
        if self.in_ram(stack, frame.nbytes):
            self.write_memory(stack, frame.tobytes())
        elif self._core.name == "cortex-m0plus":
            self._failure = EmulationError(f"the core locks up: {error}, and its stack is outside of RAM")
            return
        else:
            status |= STACKING_ERROR
        if self._core.name != "cortex-m0plus":
            assert self._chip is not None
            self._chip.bus.write(FAULT_STATUS_REGISTER, 4, status)
        self.state.in_handler = False
        handler = self._vector(HARD_FAULT)
        engine.reg_write(arm_const.UC_ARM_REG_SP, stack)
        engine.reg_write(arm_const.UC_ARM_REG_LR, EXCEPTION_RETURN)
        engine.reg_write(arm_const.UC_ARM_REG_PC, handler & ~1)
        self._counter.expected = handler & ~1

    def _sleep(self) -> None:
        """The engine has stopped at a wfi."""
        pending = self._next_interrupt()
        if pending is None:
            raise EmulationError("the CPU sleeps and no interrupt that is enabled could ever wake it")
        wake, _ = pending
        if wake > self.clock.now:
            self._sleeps(self.clock.now, wake)
            self.clock.advance_to(wake)

    def _reset(self, cause: Cause) -> None:
        assert self._chip is not None
        self.state.reset_wanted = self.state.in_handler = False
        if self._ram_lost:
            self._ram_lost = False
            self._slow_memory[:] = self._noise.randbytes(len(self._slow_memory))
            self._engine.mem_write(self._memory.ram_begin, self._noise.randbytes(self._memory.ram_bytes))
        self._chip.reset(cause)
        table = self._image.entry_table
        stack, entry = np.frombuffer(self.read_memory(table, 8), "<u4").tolist()
        self._engine.reg_write(arm_const.UC_ARM_REG_SP, stack)
        self._engine.reg_write(arm_const.UC_ARM_REG_PC, entry & ~1)
        self._engine.reg_write(arm_const.UC_ARM_REG_PRIMASK, 0)
        self._counter.expected = entry & ~1
        empty_cache(self._counter)

    def _load(self) -> None:
        memory = self._memory
        if self._image.entry_table != memory.vectors or self.image_end > self.flash_end:
            raise UserError(
                f"{self._image.path}: linked from 0x{self._image.entry_table:X} to 0x{self.image_end:X}; this board "
                f"boots at 0x{memory.vectors:X}. Is it the image of another board?"
            )
        self._engine.mem_map(memory.flash_begin, memory.flash_bytes, PROT_CODE)
        self._engine.mem_write(memory.flash_begin, b"\xff" * memory.flash_bytes)
        for address, data in self._image.segments:
            self._engine.mem_write(address, data)
        self._engine.mem_map(memory.ram_begin, memory.ram_bytes, PROT_DATA)
        self._engine.hook_add(unicorn_const.UC_HOOK_MEM_WRITE_PROT, self._stored_to_flash)

    def _stored_to_flash(self, _engine: Any, _access: int, address: int, width: int, value: int, _data: Any) -> bool:
        """Whether the flash's controller takes it; else it is a fault of the CPU."""
        try:
            return self.store_to_flash(address, width, value & (1 << 8 * width) - 1)
        except EmulationError as error:
            self.fail(error)
            return True

    def _map(self, bus: Bus, page: int) -> None:
        """Put a page of registers into the address space."""

        def load(address: int, width: int) -> int:
            try:
                return bus.read(address, width)
            except BaseException as error:
                self.fail(error)
                return 0

        def store(address: int, width: int, value: int) -> None:
            try:
                bus.write(address, width, value)
            except BaseException as error:
                self.fail(error)

        place = PageState(machine=ctypes.pointer(self.state), base=page)
        place.load_in_python, place.store_in_python = LOAD(load), STORE(store)
        for peripheral in bus.peripherals:
            if isinstance(peripheral, NativePeripheral) and peripheral.base // Bus.PAGE * Bus.PAGE == page:
                place.peripheral, place.peripheral_base = ctypes.addressof(peripheral.state), peripheral.base
                place.load, place.store = (address_of(f"{peripheral.FUNCTIONS}_{way}") for way in ("load", "store"))
        self._pages.append(place)
        map_page(self._engine, page, Bus.PAGE, self._library.page_load, self._library.page_store, place)

    def fail(self, error: BaseException) -> None:
        """No exception, nor Ctrl-C, can cross the engine: it waits until the engine has stopped."""
        if self._failure is None:
            pc = self._engine.reg_read(arm_const.UC_ARM_REG_PC)
            self._failure = (
                EmulationError(f"{error}, near pc 0x{pc:08X}") if isinstance(error, EmulationError) else error
            )
        self.state.failed = True
        self._engine.emu_stop()
        self._counter.limit = 0


def _prefix_sums(core: cycles.Core, image: Image, begin: int, end: int) -> NDArray[np.uint32]:
    """Sums over the image, kept between runs: disassembling takes about a second."""
    digest = hashlib.sha256(f"{core.version} {begin} {end}".encode())
    digest.update(Path(cycles.__file__).read_bytes())
    for address, data in image.code:
        digest.update(address.to_bytes(4) + data)
    kept = cache_folder() / f"cycles-{digest.hexdigest()[:16]}.npy"
    if kept.exists():
        return np.ascontiguousarray(np.load(kept), np.uint32)
    sums = cycles.prefix_sums(core, image.code, begin, end)
    partial = kept.with_suffix(f".{random.SystemRandom().getrandbits(32):08x}.npy")
    np.save(partial, sums)
    partial.replace(kept)
    return sums
