# SPDX-License-Identifier: Apache-2.0
"""Serial interfaces, without DMA: the CPU writes and reads each byte."""

from __future__ import annotations

from typing import ClassVar

from ..bus import EmulationError, Peripheral, Register
from ..parts import Parts
from .clock_tree import Feed
from .gpio import SamPorts, StmPort

BITS_A_BYTE = 10


class NordicUart(Peripheral):
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
    BAUDRATES: ClassVar[dict[int, int]] = {0x10000000: 1_000_000, 0x01D7E000: 115_200}
    ENABLED = 4

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        self._line = parts.line
        self._starvation = parts.starvation
        self._pins = parts.pins("serial_tx", "serial_rx")
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._receives = self._sends = False
        self._sent_at: int | None = None
        self._next_arrival = 0

    def _byte_cycles(self) -> int:
        rate = self.BAUDRATES.get(self.values["BAUDRATE"])
        if rate is None or self.values["CONFIG"] != 0:
            raise EmulationError(f"{self.name}: BAUDRATE 0x{self.values['BAUDRATE']:08X} or CONFIG is not modelled")
        return self._clock.cycles(BITS_A_BYTE / rate)

    def _check(self, started: bool) -> None:
        pins = (self.values["PSEL.TXD"], self.values["PSEL.RXD"])
        if not started or self.values["ENABLE"] != self.ENABLED or pins != self._pins:
            raise EmulationError(
                f"{self.name} is used before it is enabled, started and connected to the board's serial pins"
            )

    def write_tasks_startrx(self, _value: int) -> None:
        self._receives = True

    def write_tasks_starttx(self, _value: int) -> None:
        self._sends = True

    def read_events_rxdrdy(self) -> int:
        self._check(self._receives)
        if not self.values["EVENTS_RXDRDY"]:
            if self._line.waiting:
                self._clock.advance_to(self._next_arrival)
                self._next_arrival = self._clock.now + self._byte_cycles()
                self.values.update(EVENTS_RXDRDY=1, RXD=self._line.receive())
                self._starvation.busy()
            else:
                self._starvation.empty_poll(self._clock.now)
        return self.values["EVENTS_RXDRDY"]

    def write_txd(self, value: int) -> None:
        self._check(self._sends)
        if self._sent_at is not None and self._clock.now < self._sent_at:
            raise EmulationError(f"{self.name}: a byte is written before the last one was sent")
        self._sent_at = self._clock.now + self._byte_cycles()
        self._line.send(value & 0xFF)
        self._starvation.busy()

    def read_events_txdrdy(self) -> int:
        if self._sent_at is not None:
            self._clock.advance_to(self._sent_at)
            self._sent_at = None
            self.values["EVENTS_TXDRDY"] = 1
        return self.values["EVENTS_TXDRDY"]


class BufferedUart(Peripheral):
    """One that can have two bytes under way to the host: one in the shift register, one in the buffer.

    Attributes
    ----------
    CAN_SEND, IS_SENT, HAS_RECEIVED : int
        Flags of its status.
    """

    CAN_SEND: ClassVar[int]
    IS_SENT: ClassVar[int]
    HAS_RECEIVED: ClassVar[int]

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed) -> None:
        self._clock = parts.clock
        self._line = parts.line
        self._starvation = parts.starvation
        self._feed = feed
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._received: int | None = None
        self._next_arrival = self._sent_at = self._buffer_free_at = 0

    def _byte_cycles(self) -> int:
        """How long a byte takes; faults if the interface is not set up."""
        raise NotImplementedError

    def _status(self) -> int:
        """The flags. The CPU asks over and over: the clock skips to the next."""
        byte_cycles, clock = self._byte_cycles(), self._clock
        if self._received is None and self._line.waiting:
            clock.advance_to(self._next_arrival)
            self._received = self._line.receive()
            self._next_arrival = clock.now + byte_cycles
            self._starvation.busy()
        if clock.now < self._buffer_free_at:
            clock.advance_to(self._buffer_free_at)
        elif clock.now < self._sent_at:
            clock.advance_to(self._sent_at)
        elif self._received is None:
            self._starvation.empty_poll(clock.now)
        received = self.HAS_RECEIVED if self._received is not None else 0
        return self.CAN_SEND | received | (self.IS_SENT if clock.now >= self._sent_at else 0)

    def _take(self) -> int:
        if self._received is None:
            raise EmulationError(f"{self.name}: its data register is read while nothing has come")
        byte, self._received = self._received, None
        return byte

    def _send(self, value: int) -> None:
        byte_cycles = self._byte_cycles()
        if self._clock.now < self._buffer_free_at:
            raise EmulationError(f"{self.name}: a byte is written before the last one has left the buffer")
        begins = max(self._clock.now, self._sent_at)
        self._buffer_free_at, self._sent_at = begins, begins + byte_cycles
        self._line.send(value & 0xFF)
        self._starvation.busy()


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
    CAN_SEND, IS_SENT, HAS_RECEIVED = 1 << 0, 1 << 1, 1 << 2
    # Internal clock, least significant bit first, receives on pad 3, sends on pad 2, enabled.
    CTRLA = 1 << 2 | 1 << 30 | 3 << 20 | 1 << 16 | 1 << 1
    CTRLB = 1 << 16 | 1 << 17
    MULTIPLEX_D = 3

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, ports: SamPorts) -> None:
        self._ports = ports
        super().__init__(parts, name, base, feed)

    def power_on(self) -> None:
        super().power_on()
        self._sent_any = False

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
        flags = self._status()
        return flags if self._sent_any else flags & ~self.IS_SENT

    def write_usart_intflag(self, value: int) -> None:
        if value & self.IS_SENT:
            self._sent_any = False

    def read_usart_data(self) -> int:
        return self._take()

    def write_usart_data(self, value: int) -> None:
        self._send(value)
        self._sent_any = True


class StmUart(BufferedUart):
    """STM32F411, 19.6 USART2 on PA02 and PA03."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "SR": Register(0x00, reset=0xC0),
        "DR": Register(0x04),
        "BRR": Register(0x08),
        "CR1": Register(0x0C),
    }
    HAS_RECEIVED, IS_SENT, CAN_SEND = 1 << 5, 1 << 6, 1 << 7
    CR1 = 1 << 13 | 1 << 3 | 1 << 2
    BUS_DIVIDER = 2
    FUNCTION = 7
    MOST_BAUD_ERROR = 0.02

    def __init__(self, parts: Parts, name: str, base: int, feed: Feed, port: StmPort) -> None:
        self._baud = parts.board.baud
        self._port = port
        super().__init__(parts, name, base, feed)

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
