# SPDX-License-Identifier: Apache-2.0
"""The registers that C handles, in Python: what the peripherals in native/ are compared with.

They keep what they know in the same structures. Which register does what is written out here, a chip at a time.
"""

from __future__ import annotations

import ctypes
from typing import Any

from poet_harness.emulation.bus import EmulationError, NativePeripheral
from poet_harness.emulation.core_registers import SystemControlSpace
from poet_harness.emulation.counter import NEVER
from poet_harness.emulation.machine_state import PENDING_AT, Interrupt
from poet_harness.emulation.peripherals.compare_timer import NordicTimer, SamTimer, StmTimer
from poet_harness.emulation.peripherals.spi import NordicSpi, SamSpi, StmSpi
from poet_harness.emulation.peripherals.uart import NordicUart, SamUart, StmUart, Uart


class _Wakes(NativePeripheral):
    """One whose interrupt is pending at `wakes_at`."""

    _clock: Any

    def wakes_at(self) -> int | None:
        raise NotImplementedError

    def interrupt(self, number: int) -> Interrupt:
        def pending_at(_peripheral: int, _now: int, when: Any) -> bool:
            at = self.wakes_at()
            when[0] = at or 0
            return at is not None

        return Interrupt(None, PENDING_AT(pending_at), number)


class PythonSystemControlSpace(SystemControlSpace):
    """The interrupt controller."""

    def read_nvic_iser0(self) -> int:
        return int(self.state.enabled)

    def write_nvic_iser0(self, value: int) -> None:
        self.state.enabled |= value

    def write_nvic_icer0(self, value: int) -> None:
        self.state.enabled &= ~value


class _Counts(_Wakes):
    def _ticks(self) -> int:
        if not self.state.cycles_a_tick:
            raise EmulationError(f"{self.name} is used before it is started")
        return int((self._clock.now - self.state.started_at) // self.state.cycles_a_tick) & 0xFFFFFFFF

    def _due(self, value: int) -> int:
        left = (value - self._ticks() - 1 & 0xFFFFFFFF) + 1
        return int(self._clock.now + left * self.state.cycles_a_tick)

    def _has_come(self, channel: int) -> bool:
        come = self._clock.now >= self.state.due[channel]
        if come:
            self.state.due[channel] += self.state.cycles_a_tick << 32
        return bool(come)


class PythonNordicTimer(_Counts, NordicTimer):
    """TIMER: events are registers of their own."""

    def power_on(self) -> None:
        super().power_on()
        self._events = [0, 0]

    def wakes_at(self) -> int | None:
        armed = [channel for channel in (0, 1) if self.state.interrupts >> 17 + channel & 1]
        if any(self._events[channel] for channel in armed):
            return int(self._clock.now)
        return min((due for due in (self.state.due[channel] for channel in armed) if due != NEVER), default=None)

    def write_tasks_capture0(self, _value: int) -> None:
        self.state.captured = self._ticks()

    def read_cc0(self) -> int:
        return int(self.state.captured)

    def write_cc1(self, value: int) -> None:
        self.state.due[0] = self._due(value)

    def write_cc2(self, value: int) -> None:
        self.state.due[1] = self._due(value)

    def read_events_compare1(self) -> int:
        self._events[0] |= self._has_come(0)
        return self._events[0]

    def read_events_compare2(self) -> int:
        self._events[1] |= self._has_come(1)
        return self._events[1]

    def write_events_compare1(self, value: int) -> None:
        self._events[0] = value

    def write_events_compare2(self, value: int) -> None:
        self._events[1] = value

    def write_intenset(self, value: int) -> None:
        self.state.interrupts |= value

    def write_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value


class PythonSamTimer(_Counts, SamTimer):
    """TC: the count is read on request, and the flag is cleared by writing it."""

    MC0 = 1 << 4

    def wakes_at(self) -> int | None:
        state = self.state
        if not state.interrupts & self.MC0 or (not state.flags & self.MC0 and state.due[0] == NEVER):
            return None
        return int(self._clock.now) if state.flags & self.MC0 else int(state.due[0])

    def write_count32_readreq(self, value: int) -> None:
        if value != 0x8010:
            raise EmulationError(f"TC4: read request 0x{value:04X}")
        self.state.captured, self.state.is_captured = self._ticks(), True

    def read_count32_count(self) -> int:
        if not self.state.is_captured:
            raise EmulationError("TC4: COUNT is read without a read request")
        self.state.is_captured = False
        return int(self.state.captured)

    def write_count32_cc0(self, value: int) -> None:
        self.state.due[0] = self._due(value)

    def read_count32_intflag(self) -> int:
        if self._has_come(0):
            self.state.flags |= self.MC0
        return int(self.state.flags)

    def write_count32_intflag(self, value: int) -> None:
        self.state.flags &= ~value

    def write_count32_intenset(self, value: int) -> None:
        self.state.interrupts |= value

    def write_count32_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value


class PythonStmTimer(_Counts, StmTimer):
    """TIM2: the count is a register, and the flag is cleared by a zero."""

    CC1 = 1 << 1

    def wakes_at(self) -> int | None:
        if not self.state.interrupts & self.CC1:
            return None
        if self.state.flags & self.CC1:
            return int(self._clock.now)
        return int(self.state.due[0]) if self.state.due[0] != NEVER else None

    def read_cnt(self) -> int:
        return self._ticks()

    def write_dier(self, value: int) -> None:
        self.state.interrupts = value

    def write_ccr1(self, value: int) -> None:
        self.state.due[0] = self._due(value)

    def read_sr(self) -> int:
        if self._has_come(0):
            self.state.flags |= self.CC1
        return int(self.state.flags)

    def write_sr(self, value: int) -> None:
        self.state.flags &= value


class PythonNordicSpi(_Wakes, NordicSpi):
    """SPIM; a start is checked each time."""

    def wakes_at(self) -> int | None:
        if not self.state.interrupts & self.END_INTERRUPT:
            return None
        if self.state.events_end:
            return int(self._clock.now)
        return int(self.state.end) if self.state.is_busy else None

    def _schedule(self) -> None:
        when = self.wakes_at()
        if when is not None:
            self._machine.interrupt_at(when)

    def write_intenset(self, value: int) -> None:
        self.state.interrupts |= value
        self._schedule()

    def write_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value

    def write_events_end(self, value: int) -> None:
        self.state.events_end = value

    def write_rxd_ptr(self, value: int) -> None:
        self.state.rxd_ptr = value

    def write_rxd_maxcnt(self, value: int) -> None:
        self.state.rxd_maxcnt = value

    def write_txd_ptr(self, value: int) -> None:
        self.state.txd_ptr = value

    def write_txd_maxcnt(self, value: int) -> None:
        self.state.txd_maxcnt = value

    def read_events_end(self) -> int:
        state = self.state
        if state.is_busy:
            if not state.interrupts & self.END_INTERRUPT:
                received, end = self._bus.poll(self._sent(), state.begin, self._hz)
                self._clock.advance_to(end)
                self._store(received)
            elif self._clock.now >= state.end:
                self._store(self._bus.move(self._sent(), state.begin, self._hz))
        return int(state.events_end)

    def _sent(self) -> bytes:
        state = self.state
        sent = self._machine.read_memory(state.send, state.send_bytes) if state.send_bytes else b""
        return sent + bytes([state.over_read] * (state.receive_bytes - state.send_bytes))

    def _store(self, received: bytes) -> None:
        if self.state.receive_bytes:
            self._machine.write_memory(self.state.receive, received[: self.state.receive_bytes])
        self.state.is_busy, self.state.events_end = False, 1


class _ReceivesBytes:
    state: ctypes.Structure
    _clock: Any

    def _flags(self, takes: int, received: int, idle: int, busy: int) -> int:
        state = self.state
        arrivals = state.arrives_at[: state.moving]
        coming = [when for when in (state.begins_at, *arrivals) if when > self._clock.now]
        if coming and not (arrivals and arrivals[0] <= self._clock.now):
            self._clock.advance_to(min(coming))
        now = self._clock.now
        flags = takes if now >= state.begins_at else 0
        if arrivals and now >= arrivals[0]:
            flags |= received
        return flags | (idle if now >= state.ends_at else busy)

    def _taken(self) -> int:
        state = self.state
        if not state.moving or self._clock.now < state.arrives_at[0]:
            raise EmulationError("DATA is read before a byte has come")
        received, left = int(state.received[0]), state.moving - 1
        state.received[:left] = state.received[1 : left + 1]
        state.arrives_at[:left] = state.arrives_at[1 : left + 1]
        state.moving = left
        return received


class PythonSamSpi(_ReceivesBytes, SamSpi):
    """SERCOM1: DRE, TXC, RXC."""

    def read_spi_intflag(self) -> int:
        return self._flags(1 << 0, 1 << 2, 1 << 1, 0)

    def read_spi_data(self) -> int:
        return self._taken()


class PythonStmSpi(_ReceivesBytes, StmSpi):
    """SPI1: TXE, RXNE, BSY."""

    def read_sr(self) -> int:
        return self._flags(1 << 1, 1 << 0, 0, 1 << 7)

    def read_dr(self) -> int:
        return self._taken()


class _Serial(Uart):
    """Bytes of the line, and a firmware that does nothing but ask an empty UART for the next byte."""

    POLLS = 16
    WITHIN_CYCLES = 4096

    def power_on(self) -> None:
        super().power_on()
        self._byte: int | None = None
        self._next_arrival = self._sent_at = self._buffer_free_at = 0
        self._polls = self._first = 0

    def _comes(self) -> bool:
        """Whether a byte has come, perhaps only now."""
        byte_cycles, line = self._byte_cycles(), self._line.state
        if self._byte is None and line.taken < line.count:
            self._clock.advance_to(self._next_arrival)
            self._byte = self._line._to_board[line.taken]
            line.taken += 1
            self._next_arrival = self._clock.now + byte_cycles
            self._polls = 0
        return self._byte is not None

    def _empty_poll(self) -> None:
        now = self._clock.now
        if self._polls == 0 or now - self._first > self.WITHIN_CYCLES:
            self._polls, self._first = 0, now
        self._polls += 1
        if self._polls >= self.POLLS:
            self._polls = 0
            self._starved()

    def _gives(self, value: int) -> None:
        line = self._line.state
        line.sent[line.sent_count] = value & 0xFF
        line.sent_count += 1
        self._line.collect()
        self._polls = 0


class PythonNordicUart(_Serial, NordicUart):
    """UART: events are registers of their own."""

    def power_on(self) -> None:
        super().power_on()
        self._sends = self._was_sent = False
        self._last = 0

    def read_events_rxdrdy(self) -> int:
        if not self._comes():
            self._empty_poll()
        return int(self._byte is not None)

    def write_events_rxdrdy(self, value: int) -> None:
        assert value == 0
        self._last, self._byte = self._byte or 0, None

    def read_rxd(self) -> int:
        return self._last

    def write_txd(self, value: int) -> None:
        if self._sends and self._clock.now < self._sent_at:
            raise EmulationError(f"{self.name}: a byte is written before the last one was sent")
        self._sends, self._sent_at = True, self._clock.now + self._byte_cycles()
        self._gives(value)

    def read_events_txdrdy(self) -> int:
        if self._sends:
            self._clock.advance_to(self._sent_at)
            self._sends, self._was_sent = False, True
        return int(self._was_sent)

    def write_events_txdrdy(self, value: int) -> None:
        self._was_sent = value != 0


class _Buffers(_Serial):
    """One byte in the shift register, and one in the buffer."""

    CAN_SEND: int
    IS_SENT: int
    HAS_RECEIVED: int

    def _flags(self) -> int:
        comes, clock = self._comes(), self._clock
        if clock.now < self._buffer_free_at:
            clock.advance_to(self._buffer_free_at)
        elif clock.now < self._sent_at:
            clock.advance_to(self._sent_at)
        elif not comes:
            self._empty_poll()
        received = self.HAS_RECEIVED if comes else 0
        return self.CAN_SEND | received | (self.IS_SENT if clock.now >= self._sent_at else 0)

    def _take_byte(self) -> int:
        if self._byte is None:
            raise EmulationError(f"{self.name}: its data register is read while nothing has come")
        byte, self._byte = self._byte, None
        return byte

    def _send_byte(self, value: int) -> None:
        byte_cycles = self._byte_cycles()
        if self._clock.now < self._buffer_free_at:
            raise EmulationError(f"{self.name}: a byte is written before the last one has left the buffer")
        begins = max(self._clock.now, self._sent_at)
        self._buffer_free_at, self._sent_at = begins, begins + byte_cycles
        self._gives(value)


class PythonSamUart(_Buffers, SamUart):
    """SERCOM: nothing is sent before the first byte was."""

    CAN_SEND, IS_SENT, HAS_RECEIVED = 1 << 0, 1 << 1, 1 << 2

    def power_on(self) -> None:
        super().power_on()
        self._sent_any = False

    def read_usart_intflag(self) -> int:
        flags = self._flags()
        return flags if self._sent_any else flags & ~self.IS_SENT

    def read_usart_data(self) -> int:
        return self._take_byte()

    def write_usart_data(self, value: int) -> None:
        self._send_byte(value)
        self._sent_any = True


class PythonStmUart(_Buffers, StmUart):
    """USART."""

    HAS_RECEIVED, IS_SENT, CAN_SEND = 1 << 5, 1 << 6, 1 << 7

    def read_sr(self) -> int:
        return self._flags()

    def read_dr(self) -> int:
        return self._take_byte()

    def write_dr(self, value: int) -> None:
        self._send_byte(value)
