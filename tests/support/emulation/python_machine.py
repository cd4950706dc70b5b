# SPDX-License-Identifier: Apache-2.0
"""The CPU's loop and the cycle counter in Python: what native/machine.c and native/counter.c are compared with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from poet_harness.emulation.bus import Bus, EmulationError
from poet_harness.emulation.counter import LINE_BYTES, LINES
from poet_harness.emulation.machine import EXCEPTION_RETURN, Machine
from unicorn import arm_const, unicorn_const
from unicorn.unicorn_py3.unicorn import UcError

FOREVER = 0xFFFFFFFF
IF_THEN = 0x0600FC00  # the part of xPSR that says how far an IT block has come


class PythonMachine(Machine):
    """One CPU; its pages of registers lead to Python alone."""

    def _count_cycles(self) -> None:
        memory, reads = self._memory, unicorn_const.UC_HOOK_MEM_READ
        self._engine.hook_add(unicorn_const.UC_HOOK_BLOCK, self._block_hook())
        if memory.flash_wait:
            end = memory.flash_begin + memory.flash_bytes - 1
            self._engine.hook_add(reads, self._read_hook(), begin=memory.flash_begin, end=end)

    def _map(self, bus: Bus, page: int) -> None:
        super()._map(bus, page)
        self._pages[-1].load = self._pages[-1].store = None

    def _touch(self, line: int) -> None:
        counter = self._counter
        if counter.lines[line % LINES] != line:
            counter.lines[line % LINES] = line
            counter.cycles += counter.flash_wait

    def _read_hook(self) -> Callable[[Any, int, int, int, int, Any], None]:
        def on_read(_engine: Any, _type: int, address: int, _size: int, _value: int, _data: Any) -> None:
            self._touch(address // LINE_BYTES)

        return on_read

    def _block_hook(self) -> Callable[[Any, int, int, Any], None]:
        counter, sums = self._counter, self._prefix.tolist()
        first, last, refill = counter.begin, counter.end, counter.refill

        def on_block(engine: Any, address: int, size: int, _data: Any) -> None:
            if counter.cycles >= counter.limit:
                counter.stopped = 1
                engine.emu_stop()
                return
            end = address + size
            if address < first or end > last:
                counter.strayed = address | 1
                engine.emu_stop()
                return
            jump = refill if address != counter.expected else 0
            counter.cycles += jump + sums[(end - first) // 2] - sums[(address - first) // 2]
            counter.expected = end
            if counter.flash_wait:
                for line in range(address // LINE_BYTES, -(-end // LINE_BYTES)):
                    self._touch(line)

        return on_block

    def _turn(self, until: int) -> bool:
        self._arm(until)
        asleep = self._step_engine()
        if self._failure is not None:
            return True
        if asleep:
            self._sleep()
            return False
        return bool(self.state.pause_wanted) or self.clock.now >= until

    def _next_interrupt(self) -> tuple[int, int] | None:
        when, pending = ctypes.c_uint64(), []
        for interrupt in self.state.interrupts[: self.state.interrupt_count]:
            enabled = self.state.nvic.contents.enabled >> interrupt.number & 1
            if enabled and interrupt.pending_at(interrupt.peripheral, self.clock.now, ctypes.byref(when)):
                pending.append((when.value, interrupt.number))
        return min(pending, default=None)

    def _arm(self, until: int) -> None:
        """Take an interrupt that is due, and say when to look again."""
        self._counter.limit = until
        pending = self._next_interrupt()
        if pending is None or self.state.in_handler:
            return
        when, number = pending
        if when > self.clock.now:
            self._counter.limit = min(until, when)
        elif self._engine.reg_read(arm_const.UC_ARM_REG_PRIMASK):
            self._counter.limit = self.clock.now + 1  # block by block, until the CPU lets it in
        else:
            self._enter_handler(number)

    def _enter_handler(self, number: int) -> None:
        """Exception entry (Armv7-M Architecture Reference Manual, B1.5.6). What the frame holds is kept aside."""
        engine, handler = self._engine, self._vector(16 + number)
        if not handler & 1:
            raise EmulationError(f"interrupt {number} is enabled, and its vector is 0x{handler:08X}")
        engine.context_update(self._before_handler)
        self.state.in_handler = True
        stack = engine.reg_read(arm_const.UC_ARM_REG_SP) - self._core.frame_bytes & ~7
        status = engine.reg_read(arm_const.UC_ARM_REG_XPSR)
        engine.reg_write(arm_const.UC_ARM_REG_XPSR, status & ~IF_THEN)  # or its first instructions are conditional
        engine.reg_write(arm_const.UC_ARM_REG_SP, stack)
        engine.reg_write(arm_const.UC_ARM_REG_LR, EXCEPTION_RETURN)
        engine.reg_write(arm_const.UC_ARM_REG_PC, handler & ~1)
        self.clock.advance_to(self.clock.now + self._core.entry)
        self._counter.expected = handler & ~1

    def _leave_handler(self) -> None:
        """Exception return (B1.5.8)."""
        self._engine.context_restore(self._before_handler)
        self.state.in_handler = False
        self.clock.advance_to(self.clock.now + self._core.exit)
        self._counter.expected = self._engine.reg_read(arm_const.UC_ARM_REG_PC)

    def _step_engine(self) -> bool:
        """Run to the counter's limit. True if the CPU went to sleep instead."""
        counter = self._counter
        counter.stopped = counter.strayed = 0
        begin = self._engine.reg_read(arm_const.UC_ARM_REG_PC)
        try:
            self._engine.emu_start(begin | 1, FOREVER)
        except UcError as error:
            place = self._engine.reg_read(arm_const.UC_ARM_REG_PC)
            if self.state.in_handler and place == EXCEPTION_RETURN & ~1:
                self._leave_handler()
            elif self._failure is None:
                self._handle_fault(error)
            return False
        self._check_strayed()
        return not counter.stopped and self._failure is None
