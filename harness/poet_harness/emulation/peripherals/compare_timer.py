# SPDX-License-Identifier: Apache-2.0
"""Timers: counters of 32 bits that run freely, with compare channels. What registers do is C's (compare_timer.h)."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import ClassVar, NamedTuple

from ..bus import EmulationError, NativePeripheral, Register
from ..counter import NEVER
from ..machine_state import MachineState
from ..parts import Parts
from .clock_tree import Feed

CHANNELS = 2


class Action(IntEnum):
    """``enum timer_action`` of native/compare_timer.h."""

    NOTHING = 0
    COUNT = 1
    CAPTURE = 2
    CAPTURED = 3
    TAKE_CAPTURED = 4
    COMPARE = 5
    FLAG = 6
    FLAGS = 7
    CLEAR_FLAGS = 8
    INTERRUPTS = 9
    ENABLE = 10
    DISABLE = 11


class Access(NamedTuple):
    """What loads and stores of a register do."""

    load: Action = Action.NOTHING
    store: Action = Action.NOTHING
    argument: int = 0


class TimerRegister(ctypes.Structure):
    """``struct timer_register``."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("offset", "width", "load", "store", "argument")]


class TimerState(ctypes.Structure):
    """``struct compare_timer``."""

    _fields_ = [
        ("machine", ctypes.POINTER(MachineState)),
        ("registers", ctypes.POINTER(TimerRegister)),
        ("register_count", ctypes.c_uint32),
        ("channel_flags", ctypes.c_uint32 * CHANNELS),
        ("cycles_a_tick", ctypes.c_uint32),
        ("started_at", ctypes.c_uint64),
        ("due", ctypes.c_uint64 * CHANNELS),
        ("compare", ctypes.c_uint32 * CHANNELS),
        ("flags", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("captured", ctypes.c_uint32),
        ("is_captured", ctypes.c_uint32),
    ]


class CompareTimer(NativePeripheral):
    """What all have in common.

    Attributes
    ----------
    NATIVE : dict
        What the registers do that C handles.
    CHANNEL_FLAGS : tuple of int
        Each channel's bit in the registers of flags and interrupts; 0 where there is no such channel.
    """

    FUNCTIONS = "compare_timer"
    NATIVE: ClassVar[dict[str, Access]]
    CHANNEL_FLAGS: ClassVar[tuple[int, int]]

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        registers = [
            TimerRegister(self.REGISTERS[register].offset, self.REGISTERS[register].width, *access)
            for register, access in self.NATIVE.items()
        ]
        self.state = TimerState(
            machine=ctypes.pointer(parts.machine.state),
            registers=(TimerRegister * len(registers))(*registers),
            register_count=len(registers),
            channel_flags=self.CHANNEL_FLAGS,
        )
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        state = self.state
        state.cycles_a_tick = state.started_at = 0
        state.flags = state.interrupts = state.captured = state.is_captured = 0
        state.due, state.compare = (NEVER,) * CHANNELS, (0,) * CHANNELS

    def _start(self, cycles_a_tick: int) -> None:
        self.state.started_at, self.state.cycles_a_tick = self._clock.now, cycles_a_tick


class NordicTimer(CompareTimer):
    """nRF52840, 6.30 TIMER as a 32-bit counter, with a capture channel (0) and two compare channels (1, 2)."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x000),
        "TASKS_STOP": Register(0x004),
        "TASKS_CLEAR": Register(0x00C),
        "TASKS_CAPTURE[0]": Register(0x040),
        "EVENTS_COMPARE[1]": Register(0x144),
        "EVENTS_COMPARE[2]": Register(0x148),
        "INTENSET": Register(0x304),
        "INTENCLR": Register(0x308),
        "MODE": Register(0x504),
        "BITMODE": Register(0x508),
        "PRESCALER": Register(0x510, reset=4),
        "CC[0]": Register(0x540),
        "CC[1]": Register(0x544),
        "CC[2]": Register(0x548),
    }
    NATIVE: ClassVar[dict[str, Access]] = {
        "TASKS_CAPTURE[0]": Access(store=Action.CAPTURE),
        "EVENTS_COMPARE[1]": Access(Action.FLAG, Action.FLAG, 0),
        "EVENTS_COMPARE[2]": Access(Action.FLAG, Action.FLAG, 1),
        "INTENSET": Access(Action.INTERRUPTS, Action.ENABLE),
        "INTENCLR": Access(Action.INTERRUPTS, Action.DISABLE),
        "CC[0]": Access(Action.CAPTURED),
        "CC[1]": Access(Action.COMPARE, Action.COMPARE, 0),
        "CC[2]": Access(Action.COMPARE, Action.COMPARE, 1),
    }
    CHANNEL_FLAGS = (1 << 17, 1 << 18)
    HZ = 16_000_000

    def write_tasks_start(self, _value: int) -> None:
        if self.values["BITMODE"] != 3 or self.values["MODE"] != 0:
            raise EmulationError(f"{self.name} is modelled as a 32-bit timer (BITMODE 3, MODE 0) alone")
        self._start(self._cycles_a_tick())

    def write_tasks_clear(self, _value: int) -> None:
        self.state.started_at = self._clock.now

    def write_prescaler(self, value: int) -> None:
        self.values["PRESCALER"] = value
        if self.state.cycles_a_tick:
            self.state.cycles_a_tick = self._cycles_a_tick()

    def _cycles_a_tick(self) -> int:
        return self._clock.hz // self.HZ << self.values["PRESCALER"]


class SamTimer(CompareTimer):
    """SAM D21, 30 TC joined with the next one: a 32-bit counter with one compare channel."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "COUNT32.CTRLA": Register(0x00, 2),
        "COUNT32.READREQ": Register(0x02, 2),
        "COUNT32.INTENCLR": Register(0x0C, 1),
        "COUNT32.INTENSET": Register(0x0D, 1),
        "COUNT32.INTFLAG": Register(0x0E, 1),
        "COUNT32.STATUS": Register(0x0F, 1, 0x08),
        "COUNT32.COUNT": Register(0x10),
        "COUNT32.CC0": Register(0x18),
    }
    NATIVE: ClassVar[dict[str, Access]] = {
        "COUNT32.READREQ": Access(store=Action.CAPTURE, argument=0x8010),
        "COUNT32.INTENCLR": Access(Action.INTERRUPTS, Action.DISABLE),
        "COUNT32.INTENSET": Access(Action.INTERRUPTS, Action.ENABLE),
        "COUNT32.INTFLAG": Access(Action.FLAGS, Action.CLEAR_FLAGS),
        "COUNT32.COUNT": Access(Action.TAKE_CAPTURED),
        "COUNT32.CC0": Access(Action.COMPARE, Action.COMPARE, 0),
    }
    CHANNEL_FLAGS = (1 << 4, 0)
    PRESCALERS = (1, 2, 4, 8, 16, 64, 256, 1024)

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed) -> None:
        self._feed = feed
        super().__init__(parts, name, base)

    def write_count32_ctrla(self, value: int) -> None:
        self._feed.require_on()
        self._feed.require_full_speed()
        if value & 1:
            self.power_on()
            return
        self.values["COUNT32.CTRLA"] = value
        if value & 2:
            if value >> 2 & 3 != 2:
                raise EmulationError(f"{self.name} is modelled as a 32-bit counter (CTRLA.MODE 2) alone")
            self._start(self.PRESCALERS[value >> 8 & 7])

    def write_count32_readreq(self, value: int) -> None:
        if self.state.cycles_a_tick:
            raise EmulationError(f"{self.name}: read request 0x{value:04X} is not modelled, only one for COUNT")
        self.refuse("READREQ")

    def read_count32_count(self) -> int:
        raise EmulationError(f"{self.name}: COUNT is read without a read request")


class StmTimer(CompareTimer):
    """STM32F411, 13.4 TIM2 with one compare channel. Its clock is the core's."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CR1": Register(0x00),
        "DIER": Register(0x0C),
        "SR": Register(0x10),
        "EGR": Register(0x14),
        "CNT": Register(0x24),
        "PSC": Register(0x28),
        "ARR": Register(0x2C),
        "CCR1": Register(0x34),
    }
    NATIVE: ClassVar[dict[str, Access]] = {
        "DIER": Access(Action.INTERRUPTS, Action.INTERRUPTS),
        "SR": Access(Action.FLAGS, Action.FLAGS),
        "CNT": Access(Action.COUNT),
        "CCR1": Access(Action.COMPARE, Action.COMPARE, 0),
    }
    CHANNEL_FLAGS = (1 << 1, 0)

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed) -> None:
        self._feed = feed
        super().__init__(parts, name, base)

    def power_on(self) -> None:
        super().power_on()
        self._divider = 1

    def write_egr(self, value: int) -> None:
        self._feed.require_full_speed()
        if value & 1:
            self._divider = self.values["PSC"] + 1
            if self.state.cycles_a_tick:
                self._start(self._divider)

    def write_cr1(self, value: int) -> None:
        self._feed.require_full_speed()
        if value != 1 or self.values["ARR"] != 0xFFFFFFFF:
            raise EmulationError(
                f"{self.name} is modelled as a counter of 32 bits that runs freely (CR1 1, ARR 0xFFFFFFFF) alone"
            )
        self._start(self._divider)
