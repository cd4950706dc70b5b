# SPDX-License-Identifier: Apache-2.0
"""Serial interfaces, without DMA: the CPU writes and reads each byte."""

from __future__ import annotations

import ctypes
from typing import ClassVar

from ..bus import EmulationError, NativePeripheral, Register
from ..library import compiled
from ..machine_state import MachineState
from ..parts import Parts
from ..serial_line import LineState
from .clock_tree import Feed
from .gpio import SamPorts, StmPort

BITS_A_BYTE = 10


class UartState(ctypes.Structure):
    """``struct byte_uart`` of native/byte_uart.h."""

    _fields_ = [
        ("machine", ctypes.POINTER(MachineState)),
        ("line", ctypes.POINTER(LineState)),
        *((name, ctypes.c_uint64) for name in ("byte_cycles", "next_arrival", "free_at", "sent_at")),
        *((name, ctypes.c_uint32) for name in ("data", "send_data", "data_width", "status", "status_width")),
        *((name, ctypes.c_uint32) for name in ("sent_event", "takes", "received_one", "idle", "empty_polls")),
        ("first_poll", ctypes.c_uint64),
        *((name, ctypes.c_uint8) for name in ("sends", "has_sent", "has_received", "received")),
    ]


class Uart(NativePeripheral):
    """What all have in common: the CPU gives C each byte, and asks it for each.

    After any other store Python looks at the other registers first.

    Attributes
    ----------
    DATA, SEND, STATUS, EVENT : str
        Names of the registers that are read, written and asked; of the event that a byte was sent, if there is one.
    FLAGS : dict
        Flags of the status.
    """

    FUNCTIONS = "byte_uart"
    DATA: ClassVar[str]
    SEND: ClassVar[str]
    STATUS: ClassVar[str]
    EVENT: ClassVar[str | None] = None
    FLAGS: ClassVar[dict[str, int]]

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        self._line = parts.line
        self._starved = parts.starved
        self._machine = parts.machine
        data, status = self.REGISTERS[self.DATA], self.REGISTERS[self.STATUS]
        self.state = UartState(
            machine=ctypes.pointer(parts.machine.state),
            line=ctypes.pointer(parts.line.state),
            data=data.offset,
            send_data=self.REGISTERS[self.SEND].offset,
            data_width=data.width,
            status=status.offset,
            status_width=status.width,
            sent_event=self.REGISTERS[self.EVENT].offset if self.EVENT else 0,
            **self.FLAGS,
        )
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._machine.state.serial_checked = False
        state = self.state
        state.next_arrival = state.free_at = state.sent_at = 0
        state.sends = state.has_sent = state.has_received = state.received = 0

    def _byte_cycles(self) -> int:
        """How long a byte takes; faults if the interface is not set up."""
        raise NotImplementedError

    def _check(self) -> None:
        self.state.byte_cycles, self._machine.state.serial_checked = self._byte_cycles(), True

    def _status(self) -> int:
        """The flags; nothing more comes before the host sends where C says none."""
        self._check()
        value, state = ctypes.c_uint32(), self.state
        if not compiled().byte_uart_load(ctypes.byref(state), state.status, state.status_width, ctypes.byref(value)):
            state.empty_polls = 0
            self._starved()
            return int(state.takes | (state.idle if state.has_sent else 0))
        return value.value

    def _send(self, value: int) -> None:
        self._check()
        self._line.collect()
        state = self.state
        if not compiled().byte_uart_store(ctypes.byref(state), state.send_data, state.data_width, value):
            raise EmulationError(f"{self.name}: a byte is written before the last one has left the buffer")


class NordicUart(Uart):
    """nRF52840, 6.33 UART without EasyDMA."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_STARTRX": Register(0x000),
        "TASKS_STARTTX": Register(0x008),
        "EVENTS_RXDRDY": Register(0x108),
        "EVENTS_TXDRDY": Register(0x11C),
        "ENABLE": Register(0x500),
        "PSEL.TXD": Register(0x50C, reset=0xFFFFFFFF),
        "PSEL.RXD": Register(0x514, reset=0xFFFFFFFF),
        "RXD": Register(0x518),
        "TXD": Register(0x51C),
        "BAUDRATE": Register(0x524, reset=0x04000000),
        "CONFIG": Register(0x56C),
    }
    DATA, SEND, STATUS, EVENT = "RXD", "TXD", "EVENTS_RXDRDY", "EVENTS_TXDRDY"
    NATIVE = frozenset({"RXD", "EVENTS_TXDRDY"})
    FLAGS: ClassVar[dict[str, int]] = {"received_one": 1}
    BAUDRATES: ClassVar[dict[int, int]] = {0x10000000: 1_000_000, 0x01D7E000: 115_200}
    ENABLED = 4

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._pins = parts.pins("serial_tx", "serial_rx")
        super().__init__(parts, name, base)

    def power_on(self) -> None:
        super().power_on()
        self._started: set[str] = set()

    def _byte_cycles(self) -> int:
        pins = (self.values["PSEL.TXD"], self.values["PSEL.RXD"])
        if len(self._started) < 2 or self.values["ENABLE"] != self.ENABLED or pins != self._pins:
            raise EmulationError(
                f"{self.name} is used before it is enabled, started and connected to the board's serial pins"
            )
        rate = self.BAUDRATES.get(self.values["BAUDRATE"])
        if rate is None or self.values["CONFIG"] != 0:
            raise EmulationError(f"{self.name}: BAUDRATE 0x{self.values['BAUDRATE']:08X} or CONFIG is not modelled")
        return self._clock.cycles(BITS_A_BYTE / rate)

    def write_tasks_startrx(self, _value: int) -> None:
        self._started.add("RX")

    def write_tasks_starttx(self, _value: int) -> None:
        self._started.add("TX")

    def read_events_rxdrdy(self) -> int:
        return self._status()

    def write_txd(self, value: int) -> None:
        self._send(value)


class BufferedUart(Uart):
    """One that can have two bytes under way to the host: one in the shift register, one in the buffer."""

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed) -> None:
        self._feed = feed
        super().__init__(parts, name, base)

    def _take(self) -> int:
        raise EmulationError(f"{self.name}: its data register is read while nothing has come")


class SamUart(BufferedUart):
    """SAM D21, 26 SERCOM as USART on PB22 and PB23."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "USART.CTRLA": Register(0x00),
        "USART.CTRLB": Register(0x04),
        "USART.BAUD": Register(0x0C, 2),
        "USART.INTFLAG": Register(0x18, 1),
        "USART.SYNCBUSY": Register(0x1C),
        "USART.DATA": Register(0x28, 2),
    }
    DATA, STATUS = "USART.DATA", "USART.INTFLAG"
    DATA = SEND = "USART.DATA"
    STATUS = "USART.INTFLAG"
    NATIVE = frozenset({DATA, STATUS})
    FLAGS: ClassVar[dict[str, int]] = {"takes": 1 << 0, "idle": 1 << 1, "received_one": 1 << 2}
    # Internal clock, least significant bit first, receives on pad 3, sends on pad 2, enabled.
    CTRLA = 1 << 2 | 1 << 30 | 3 << 20 | 1 << 16 | 1 << 1
    CTRLB = 1 << 16 | 1 << 17
    MULTIPLEX_D = 3

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, ports: SamPorts) -> None:
        self._ports = ports
        super().__init__(parts, name, base, feed)

    def write_usart_ctrla(self, value: int) -> None:
        self._feed.require_on()
        if value & 1:
            self.power_on()
            return
        if value & 2 and not all(self._ports.is_multiplexed(1, pin, self.MULTIPLEX_D) for pin in (22, 23)):
            raise EmulationError(f"{self.name} is enabled before PB22 and PB23 are given to it (PMUX D)")
        self.values["USART.CTRLA"] = value

    def _byte_cycles(self) -> int:
        self._feed.require_full_speed()
        values = self.values
        if values["USART.CTRLA"] != self.CTRLA or values["USART.CTRLB"] != self.CTRLB:
            raise EmulationError(f"{self.name} is used in a mode that is not modelled, or before it is enabled")
        baud = self._clock.hz / 16 * (1 - values["USART.BAUD"] / 65536)
        return self._clock.cycles(BITS_A_BYTE / baud)

    def read_usart_intflag(self) -> int:
        return self._status()

    def write_usart_intflag(self, value: int) -> None:
        if value & self.FLAGS["idle"]:
            self.state.has_sent = False

    def read_usart_data(self) -> int:
        return self._take()

    def write_usart_data(self, value: int) -> None:
        self._send(value)


class StmUart(BufferedUart):
    """STM32F411, 19.6 USART2 on PA02 and PA03."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "SR": Register(0x00, reset=0xC0),
        "DR": Register(0x04),
        "BRR": Register(0x08),
        "CR1": Register(0x0C),
    }
    DATA, STATUS = "DR", "SR"
    DATA = SEND = "DR"
    STATUS = "SR"
    NATIVE = frozenset({DATA, STATUS})
    FLAGS: ClassVar[dict[str, int]] = {"received_one": 1 << 5, "idle": 1 << 6, "takes": 1 << 7}
    CR1 = 1 << 13 | 1 << 3 | 1 << 2
    BUS_DIVIDER = 2
    FUNCTION = 7
    MOST_BAUD_ERROR = 0.02

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, port: StmPort) -> None:
        self._baud = parts.board.baud
        self._port = port
        super().__init__(parts, name, base, feed)

    def power_on(self) -> None:
        super().power_on()
        self.state.has_sent = True

    def _byte_cycles(self) -> int:
        self._feed.require_full_speed()
        given = all(self._port.is_given(pin, self.FUNCTION) for pin in (2, 3))
        if self.values["CR1"] != self.CR1 or not given or not self.values["BRR"]:
            raise EmulationError(
                f"{self.name} is used in a mode that is not modelled, or before it has PA02 and PA03 (AF7)"
            )
        baud = self._clock.hz / self.BUS_DIVIDER / self.values["BRR"]
        if abs(baud / self._baud - 1) > self.MOST_BAUD_ERROR:
            raise EmulationError(f"{self.name}: {baud:.0f} baud, the board's file says {self._baud}")
        return self._clock.cycles(BITS_A_BYTE / baud)

    def read_sr(self) -> int:
        return self._status()

    def read_dr(self) -> int:
        return self._take()

    def write_dr(self, value: int) -> None:
        self._send(value)
