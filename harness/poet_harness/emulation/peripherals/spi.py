# SPDX-License-Identifier: Apache-2.0
"""SPI masters: with DMA, and fed byte by byte. What happens at every transfer is C's (spi_dma.h, byte_spi.h)."""

from __future__ import annotations

import ctypes
from typing import ClassVar

from ..bus import EmulationError, NativePeripheral, Register
from ..machine_state import MachineState
from ..parts import Parts
from ..spi_bus import SpiBus, SpiBusState
from .clock_tree import Feed
from .gpio import NordicPort, SamPorts, StmPort

MOVING = 4


class SpiDmaState(ctypes.Structure):
    """``struct spi_dma`` of native/spi_dma.h."""

    _fields_ = [
        ("machine", ctypes.POINTER(MachineState)),
        ("bus", SpiBusState),
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("byte_cycles", ctypes.c_uint64),
        ("send", ctypes.c_uint32),
        ("send_bytes", ctypes.c_uint32),
        ("receive", ctypes.c_uint32),
        ("receive_bytes", ctypes.c_uint32),
        ("txd_ptr", ctypes.c_uint32),
        ("txd_maxcnt", ctypes.c_uint32),
        ("rxd_ptr", ctypes.c_uint32),
        ("rxd_maxcnt", ctypes.c_uint32),
        ("events_end", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("is_busy", ctypes.c_uint8),
        ("over_read", ctypes.c_uint8),
    ]


class NordicSpi(NativePeripheral):
    """nRF52840, 6.25 SPIM with EasyDMA.

    The bytes move at once at the end of the transfer: data that the CPU changes on the way, or looks at too early,
    shows as an error, as it may on the chip.

    Parameters
    ----------
    ports : sequence of NordicPort
        The chip gets its own clock (SCK) through the pin's input buffer.
    """

    FUNCTIONS = "spi_dma"
    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x010),
        "EVENTS_END": Register(0x118),
        "INTENSET": Register(0x304),
        "INTENCLR": Register(0x308),
        "ENABLE": Register(0x500),
        "PSEL.SCK": Register(0x508, reset=0xFFFFFFFF),
        "PSEL.MOSI": Register(0x50C, reset=0xFFFFFFFF),
        "PSEL.MISO": Register(0x510, reset=0xFFFFFFFF),
        "FREQUENCY": Register(0x524, reset=0x04000000),
        "RXD.PTR": Register(0x534),
        "RXD.MAXCNT": Register(0x538),
        "TXD.PTR": Register(0x544),
        "TXD.MAXCNT": Register(0x548),
        "CONFIG": Register(0x554),
        "ORC": Register(0x5C0),
    }
    NATIVE = frozenset({"INTENSET", "INTENCLR", "RXD.PTR", "RXD.MAXCNT", "TXD.PTR", "TXD.MAXCNT", "EVENTS_END"})
    FREQUENCIES: ClassVar[dict[int, float]] = {
        0x02000000: 125e3, 0x04000000: 250e3, 0x08000000: 500e3, 0x10000000: 1e6,
        0x20000000: 2e6, 0x40000000: 4e6, 0x80000000: 8e6,
    }  # fmt: skip
    END_INTERRUPT = 1 << 6
    MOST_BYTES = 0xFFFF

    def __init__(self, parts: Parts, name: str, base: int, ports: tuple[NordicPort, ...]) -> None:
        self._clock = parts.clock
        self._machine = parts.machine
        self._pins = parts.pins("card_sck", "card_mosi", "card_miso")
        port, self._sck = divmod(self._pins[0], 32)
        self._sck_port = ports[port]
        self.state = SpiDmaState(machine=ctypes.pointer(parts.machine.state))
        self._bus = SpiBus(parts.card, parts.clock, self.state.bus)
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._machine.state.spi_checked = False
        state = self.state
        state.txd_ptr = state.txd_maxcnt = state.rxd_ptr = state.rxd_maxcnt = 0
        state.events_end = state.interrupts = state.is_busy = 0

    def write_tasks_start(self, _value: int) -> None:
        """A start that C has not checked."""
        values, state = self.values, self.state
        pins = (values["PSEL.SCK"], values["PSEL.MOSI"], values["PSEL.MISO"])
        if values["ENABLE"] != 7 or pins != self._pins or values["CONFIG"] != 0:
            raise EmulationError(
                f"{self.name} is started before it is enabled, in mode 0 and connected to the card's pins"
            )
        if not self._sck_port.reads(self._sck):
            raise EmulationError(
                f"{self.name} is started while the input buffer of SCK, through which it gets its own clock, is off"
            )
        if state.is_busy:
            raise EmulationError(f"{self.name} is started while a transfer is under way")
        for way, count, place in (("TXD", state.txd_maxcnt, state.txd_ptr), ("RXD", state.rxd_maxcnt, state.rxd_ptr)):
            if count > self.MOST_BYTES or (count and not self._machine.in_ram(place, count)):
                raise EmulationError(f"{self.name}: {count} bytes at {way}.PTR 0x{place:08X} are not in RAM")
        state.send, state.send_bytes = state.txd_ptr, state.txd_maxcnt
        state.receive, state.receive_bytes = state.rxd_ptr, state.rxd_maxcnt
        self._hz = self.FREQUENCIES[values["FREQUENCY"]]
        state.byte_cycles = self._bus.duration(1, self._hz)
        state.over_read = values["ORC"]
        state.begin = self._clock.now
        state.end = state.begin + max(state.txd_maxcnt, state.rxd_maxcnt) * state.byte_cycles
        state.is_busy = self._machine.state.spi_checked = True
        if state.interrupts & self.END_INTERRUPT:
            self._machine.interrupt_at(state.end)

    def read_events_end(self) -> int:
        """The end of a transfer that no card answers, or that is very long."""
        state = self.state
        interrupts = bool(state.interrupts & self.END_INTERRUPT)
        if not state.is_busy or (interrupts and self._clock.now < state.end):
            return int(state.events_end)
        sent = self._machine.read_memory(state.send, state.send_bytes) if state.send_bytes else b""
        sent += bytes([state.over_read] * (state.receive_bytes - state.send_bytes))
        if interrupts:
            received = self._bus.move(sent, state.begin, self._hz)
        else:
            received, end = self._bus.poll(sent, state.begin, self._hz)
            self._clock.advance_to(end)
        if state.receive_bytes:
            self._machine.write_memory(state.receive, received[: state.receive_bytes])
        state.is_busy, state.events_end = False, 1
        return 1


class ByteSpiState(ctypes.Structure):
    """``struct byte_spi`` of native/byte_spi.h."""

    _fields_ = [
        ("machine", ctypes.POINTER(MachineState)),
        ("bus", SpiBusState),
        ("data", ctypes.c_uint32),
        ("data_width", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("status_width", ctypes.c_uint32),
        ("takes", ctypes.c_uint32),
        ("received_one", ctypes.c_uint32),
        ("idle", ctypes.c_uint32),
        ("busy", ctypes.c_uint32),
        ("most_moving", ctypes.c_uint32),
        ("moving", ctypes.c_uint32),
        ("begins_at", ctypes.c_uint64),
        ("ends_at", ctypes.c_uint64),
        ("arrives_at", ctypes.c_uint64 * MOVING),
        ("byte_cycles", ctypes.c_uint64),
        ("received", ctypes.c_uint8 * MOVING),
    ]


class ByteSpi(NativePeripheral):
    """What those have in common that the CPU feeds byte by byte.

    Attributes
    ----------
    DATA, STATUS : str
        Names of the two registers that C handles.
    FLAGS : dict
        Flags of the status.
    MOST_MOVING : int
        Bytes in the receive buffer and the shift register.
    """

    FUNCTIONS = "byte_spi"
    DATA: ClassVar[str]
    STATUS: ClassVar[str]
    FLAGS: ClassVar[dict[str, int]]
    MOST_MOVING: ClassVar[int]

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed) -> None:
        self._clock = parts.clock
        self._machine = parts.machine
        self._feed = feed
        data, status = self.REGISTERS[self.DATA], self.REGISTERS[self.STATUS]
        self.state = ByteSpiState(
            machine=ctypes.pointer(parts.machine.state),
            data=data.offset,
            data_width=data.width,
            status=status.offset,
            status_width=status.width,
            most_moving=self.MOST_MOVING,
            **self.FLAGS,
        )
        self._bus = SpiBus(parts.card, parts.clock, self.state.bus)
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._machine.state.spi_checked = False
        self.state.moving = self.state.begins_at = self.state.ends_at = 0

    def _hz(self) -> float:
        """Rate of the bus; faults if the controller is not set up."""
        raise NotImplementedError

    def _send(self, value: int) -> None:
        """A byte that C has not checked, or that no card answers."""
        hz, state = self._hz(), self.state
        if self._clock.now < state.begins_at:
            raise EmulationError(f"{self.name}: a byte is written before the last one has left the buffer")
        if state.moving >= self.MOST_MOVING:
            raise EmulationError(f"{self.name}: the receive buffer overflows")
        begin = max(self._clock.now, int(state.ends_at))
        received, state.ends_at = self._bus.poll(bytes([value & 0xFF]), begin, hz)
        state.begins_at = begin
        state.received[state.moving], state.arrives_at[state.moving] = received[0], state.ends_at
        state.moving += 1
        state.byte_cycles, self._machine.state.spi_checked = self._bus.duration(1, hz), True

    def _read(self) -> int:
        raise EmulationError(f"{self.name}: its data register is read before a byte has come")


class SamSpi(ByteSpi):
    """SAM D21, 27 SERCOM as SPI master on PA16 (data out), PA17 (clock) and PA19 (data in)."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "SPI.CTRLA": Register(0x00),
        "SPI.CTRLB": Register(0x04),
        "SPI.BAUD": Register(0x0C, 1),
        "SPI.INTFLAG": Register(0x18, 1),
        "SPI.SYNCBUSY": Register(0x1C),
        "SPI.DATA": Register(0x28),
    }
    DATA, STATUS = "SPI.DATA", "SPI.INTFLAG"
    NATIVE = frozenset({DATA, STATUS})
    FLAGS: ClassVar[dict[str, int]] = {"takes": 1 << 0, "idle": 1 << 1, "received_one": 1 << 2}
    MOST_MOVING = 3
    CTRLA = 3 << 2 | 3 << 20 | 1 << 1  # master, data in on pad 3, data out on pad 0, mode 0, enabled
    CTRLB = 1 << 17
    MULTIPLEX_C = 2

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, ports: SamPorts) -> None:
        self._ports = ports
        super().__init__(parts, name, base, feed)

    def write_spi_ctrla(self, value: int) -> None:
        self._feed.require_on()
        if value & 1:
            self.power_on()
            return
        if value & 2 and not all(self._ports.is_multiplexed(0, pin, self.MULTIPLEX_C) for pin in (16, 17, 19)):
            raise EmulationError(f"{self.name} is enabled before PA16, PA17 and PA19 are given to it (PMUX C)")
        self.values["SPI.CTRLA"] = value

    def write_spi_baud(self, value: int) -> None:
        if self.values["SPI.CTRLA"] & 2:
            raise EmulationError(f"{self.name}: BAUD is written while the SERCOM is enabled")
        self.values["SPI.BAUD"] = value

    def _hz(self) -> float:
        self._feed.require_full_speed()
        if self.values["SPI.CTRLA"] != self.CTRLA or self.values["SPI.CTRLB"] != self.CTRLB:
            raise EmulationError(f"{self.name} is used in a mode that is not modelled, or before it is enabled")
        return self._clock.hz / (2 * (self.values["SPI.BAUD"] + 1))

    def write_spi_data(self, value: int) -> None:
        self._send(value)

    def read_spi_data(self) -> int:
        return self._read()


class StmSpi(ByteSpi):
    """STM32F411, 20.5 SPI1."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CR1": Register(0x00),
        "SR": Register(0x08, reset=0x02),
        "DR": Register(0x0C),
    }
    DATA, STATUS = "DR", "SR"
    NATIVE = frozenset({DATA, STATUS})
    FLAGS: ClassVar[dict[str, int]] = {"received_one": 1 << 0, "takes": 1 << 1, "busy": 1 << 7}
    MOST_MOVING = 2
    SPE, BR = 1 << 6, 7 << 3
    CR1 = 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9  # master, enabled, chip select in software
    BUS_DIVIDER = 2
    FUNCTION = 5

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, ports: tuple[StmPort, ...]) -> None:
        self._pins = [divmod(pin, 32) for pin in parts.pins("card_sck", "card_miso", "card_mosi")]
        self._ports = ports
        super().__init__(parts, name, base, feed)

    def write_cr1(self, value: int) -> None:
        self._feed.require_full_speed()
        before = self.values["CR1"]
        if before & value & self.SPE and (before ^ value) & self.BR:
            raise EmulationError(f"{self.name}: the divider changes while SPE is on")
        if before & self.SPE and not value & self.SPE and self._clock.now < self.state.ends_at:
            raise EmulationError(f"{self.name} is switched off while a byte moves")
        if value & self.SPE and not all(self._ports[port].is_given(pin, self.FUNCTION) for port, pin in self._pins):
            raise EmulationError(f"{self.name} is enabled before the card's pins are given to it (AF5)")
        self.values["CR1"] = value

    def _hz(self) -> float:
        if self.values["CR1"] & ~self.BR != self.CR1:
            raise EmulationError(f"{self.name} is used in a mode that is not modelled, or before it is enabled")
        return self._clock.hz / self.BUS_DIVIDER / (2 << (self.values["CR1"] >> 3 & 7))

    def write_dr(self, value: int) -> None:
        self._send(value)

    def read_dr(self) -> int:
        return self._read()
