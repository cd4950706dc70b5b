# SPDX-License-Identifier: Apache-2.0
"""The SAMD21G18A of the MKR1000 around its CPU, as far as firmware/boards/samd21 uses it.

Chapters are those of the SAM D21/DA1 family data sheet DS40001882. Window line and
chip select are those of the board's file; the card's and the serial line's pins are the SERCOMs'.
Synchronisation between clock domains is taken to be over at the next access.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

from poet_profiles.boards import Board, Pins, pin_number

from .bus import Bus, EmulationError, Peripheral, Register, clear
from .clock import Clock
from .core_registers import NvicState, SystemControlSpace
from .counter import NEVER
from .machine import Machine, Memory
from .machine_state import MachineState, NativeChip
from .power import Power
from .sdcard import SdCard
from .serial_line import SerialLine, Starvation
from .spi_bus import SpiBus, SpiBusState
from .variation import Cause, Variation

# The bootloader holds the flash below 0x2000 and jumps there. At 48 MHz the flash has one wait state; its cache
# (22.6.7) has eight lines of 64 bits, is direct mapped, and fetches nothing ahead.
MEMORY = Memory(0x2000, 0x00000000, 256 * 1024, 0x20000000, 32 * 1024, flash_wait=1)

MOSI_PIN, SCK_PIN, MISO_PIN = 16, 17, 19  # PA16, PA17, PA19
SERCOM1_GATE, SERCOM5_GATE, TC4_GATE, TC5_GATE = 1 << 3, 1 << 7, 1 << 12, 1 << 13  # PM APBCMASK
GCLK_DFLL48, GCLK_SERCOM1, GCLK_SERCOM5, GCLK_TC4_TC5 = 0, 21, 25, 28
SOURCE_XOSC32K, SOURCE_DFLL48M = 5, 7
TC4_IRQ = 19
CRYSTAL_START_S = 1.0  # 37.13.2, start-up time of the 32 kHz crystal oscillator: up to about a second
DFLL_LOCK_S = 200e-6  # 37.13.4, closed loop, coarse and fine lock, typical
CRYSTAL_HZ = 32768
BITS_A_BYTE = 10
PRESCALERS = {0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 64, 6: 256, 7: 1024}
MULTIPLEX_C, MULTIPLEX_D = 2, 3
MOST_MOVING = 3  # bytes in the receive buffer and the shift register


class PowerManager(Peripheral):
    """16 PM: clock gates, and why the chip came out of reset. It knows no lock-up."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "APBCMASK": Register(0x20, reset=0x00010000),
        "RCAUSE": Register(0x38, 1, reset=1 << 0),
    }
    CAUSES: ClassVar[dict[Cause, int]] = {"power": 1 << 0, "pin": 1 << 4, "request": 1 << 6}

    def __init__(self) -> None:
        super().__init__("PM", 0x40000400)

    def came_up(self, cause: Cause) -> None:
        """The last reset's cause stays until the next."""
        self.values["RCAUSE"] = self.CAUSES[cause]

    def require(self, gate: int, who: str) -> None:
        """Fault if a peripheral's bus clock is off: a real one would not answer."""
        if self.values["APBCMASK"] & gate != gate:
            raise EmulationError(f"{who} is used while its clock in PM.APBCMASK is off")


class Oscillators(Peripheral):
    """17 SYSCTRL: the crystal and the DFLL."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "PCLKSR": Register(0x0C),
        "XOSC32K": Register(0x14, 2, 0x0080),
        "OSC8M": Register(0x20, reset=0x87070382),
        "DFLLCTRL": Register(0x24, 2, 0x0080),
        "DFLLMUL": Register(0x2C),
    }

    def __init__(self, clock: Clock, crystal_starts: bool) -> None:
        self._clock = clock
        self._crystal_starts = crystal_starts
        super().__init__("SYSCTRL", 0x40000800)

    @property
    def crystal_runs(self) -> bool:
        """Enabled, with its 32 kHz output."""
        return self._crystal_starts and self.values["XOSC32K"] & 0xE == 0xE

    @property
    def dfll_hz(self) -> int:
        """What the DFLL delivers in closed loop; 0 while it is not set up so."""
        closed_loop = self.values["DFLLCTRL"] & 0x6 == 0x6
        return (self.values["DFLLMUL"] & 0xFFFF) * CRYSTAL_HZ if closed_loop else 0

    def write_xosc32k(self, value: int) -> None:
        was_running = self.crystal_runs
        self.values["XOSC32K"] = value
        if self.crystal_runs and not was_running:
            self._clock.advance_to(self._clock.now + self._clock.cycles(CRYSTAL_START_S))

    def write_dfllctrl(self, value: int) -> None:
        self.values["DFLLCTRL"] = value
        if self.dfll_hz:
            self._clock.advance_to(self._clock.now + self._clock.cycles(DFLL_LOCK_S))

    def write_dfllmul(self, value: int) -> None:
        if self.values["DFLLCTRL"] & 0x80:
            raise EmulationError("SYSCTRL: DFLLMUL is written in on-demand mode (errata reference 9905)")
        self.values["DFLLMUL"] = value

    def read_pclksr(self) -> int:
        ready = 1 << 3  # OSC8M runs from reset on
        if self.crystal_runs:
            ready |= 1 << 1
        if self.values["DFLLCTRL"] & 2:
            ready |= 1 << 4
        if self.dfll_hz and self.crystal_runs:
            ready |= 1 << 6 | 1 << 7
        return ready


class GenericClocks(Peripheral):
    """15 GCLK: which oscillator feeds which generator, and which generator which peripheral."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CTRL": Register(0x0, 1),
        "STATUS": Register(0x1, 1),
        "CLKCTRL": Register(0x2, 2),
        "GENCTRL": Register(0x4),
    }

    def __init__(self, oscillators: Oscillators) -> None:
        self._oscillators = oscillators
        super().__init__("GCLK", 0x40000C00)

    def power_on(self) -> None:
        super().power_on()
        self._sources: dict[int, int] = {}
        self._feeds: dict[int, int] = {}

    def rate(self, peripheral: int) -> int:
        """Clock rate at a peripheral's input, in Hz; 0 if none is connected."""
        generator = self._feeds.get(peripheral)
        source = self._sources.get(generator) if generator is not None else None
        if source == SOURCE_DFLL48M and self.rate(GCLK_DFLL48) == CRYSTAL_HZ:
            return self._oscillators.dfll_hz
        return CRYSTAL_HZ if source == SOURCE_XOSC32K and self._oscillators.crystal_runs else 0

    def require_full_speed(self, peripheral: int, clock: Clock, who: str) -> None:
        """Fault unless a peripheral is fed at the CPU's rate, to within half a percent."""
        rate = self.rate(peripheral)
        if abs(rate - clock.hz) > clock.hz // 200:
            raise EmulationError(f"{who} is used with a generic clock of {rate} Hz; {clock.hz} Hz is modelled")

    def write_ctrl(self, value: int) -> None:
        if value & 1:
            self.power_on()

    def write_clkctrl(self, value: int) -> None:
        self.values["CLKCTRL"] = value
        if value >> 14 & 1:
            self._feeds[value & 0x3F] = value >> 8 & 0xF

    def write_genctrl(self, value: int) -> None:
        self.values["GENCTRL"] = value
        if value >> 16 & 1:
            self._sources[value & 0xF] = value >> 8 & 0x1F


class FlashControl(Peripheral):
    """22 NVMCTRL."""

    REGISTERS: ClassVar[dict[str, Register]] = {"CTRLB": Register(0x4)}

    def __init__(self) -> None:
        super().__init__("NVMCTRL", 0x41004000)


class HandMovedBus:
    """The card's bus while the firmware moves its pins itself, in mode 0.

    The card is asked byte by byte: what it sends in return comes out with the next byte's bits, one byte late. A card
    may be as late as that by itself.
    """

    HZ = 200e3

    def __init__(self, bus: SpiBus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Chip select has moved: the next bit is a byte's first."""
        self._bits, self._sent, self._received = 0, 0, 0xFF

    def rise(self, data_out: bool) -> None:
        """The clock rises: the card takes a bit."""
        self._bits, self._sent = self._bits + 1, self._sent << 1 | data_out
        if self._bits == 9:
            self._bits, self._sent = 1, int(data_out)

    def fall(self) -> None:
        """The clock falls: behind the last bit, the card has the byte."""
        if self._bits == 8:
            self._received = self._bus.move(bytes([self._sent & 0xFF]), self._clock.now, self.HZ)[0]

    @property
    def data_in(self) -> bool:
        """The bit that the card shows."""
        return bool(self._received >> (8 - self._bits if self._bits else 7) & 1)


class Ports(Peripheral):
    """23 PORT: groups A and B.

    A pull-up works only while the pin is no peripheral's (Microchip's support, and others' measurements; the data sheet
    says otherwise).
    """

    REGISTERS: ClassVar[dict[str, Register]] = {
        "IN0": Register(0x20),
        **{f"DIRSET{group}": Register(0x08 + 0x80 * group) for group in (0, 1)},
        **{f"OUTCLR{group}": Register(0x14 + 0x80 * group) for group in (0, 1)},
        **{f"OUTSET{group}": Register(0x18 + 0x80 * group) for group in (0, 1)},
        **{f"PMUX{group}_{pair}": Register(0x30 + 0x80 * group + pair, 1) for group in (0, 1) for pair in range(16)},
        **{f"PINCFG{group}_{pin}": Register(0x40 + 0x80 * group + pin, 1) for group in (0, 1) for pin in range(32)},
    }

    def __init__(self, card: SdCard, power: Power, clock: Clock, pins: Pins) -> None:
        self._card = card
        self._power = power
        self._window = divmod(pin_number(pins.window), 32)
        self._card_cs = divmod(pin_number(pins.card_cs), 32)
        self._by_hand = HandMovedBus(SpiBus(card, clock), clock)
        card.pulled_up = lambda: self.is_pulled_up(MISO_PIN)
        super().__init__("PORT", 0x41004400)

    def power_on(self) -> None:
        super().power_on()
        self._out = [0, 0]
        self._drives = [0, 0]

    def is_pulled_up(self, pin: int) -> bool:
        """Whether a pin of group A has a pull-up that works."""
        return self.values[f"PINCFG0_{pin}"] & 0b101 == 0b100 and bool(self._out[0] >> pin & 1)

    def read_in0(self) -> int:
        if self.values[f"PINCFG0_{MISO_PIN}"] & 0b011 != 0b010:
            raise EmulationError("PORT: PA19 is read while it is a peripheral's, or without its input buffer")
        return int(self._by_hand.data_in) << MISO_PIN

    def _clock_by_hand(self) -> None:
        """SCK has moved as an output of the firmware's."""
        if self.values[f"PINCFG0_{SCK_PIN}"] & 1 or not self._drives[0] >> SCK_PIN & 1:
            return
        if self._out[0] >> SCK_PIN & 1:
            self._by_hand.rise(bool(self._out[0] >> MOSI_PIN & 1))
        else:
            self._by_hand.fall()

    def is_multiplexed(self, group: int, pin: int, function: int) -> bool:
        """Whether a pin is given to a peripheral function."""
        multiplexer = self.values[f"PMUX{group}_{pin // 2}"] >> (4 if pin % 2 else 0) & 0xF
        return bool(self.values[f"PINCFG{group}_{pin}"] & 1) and multiplexer == function

    def write_dirset0(self, value: int) -> None:
        self._drives[0] |= value

    def write_dirset1(self, value: int) -> None:
        self._drives[1] |= value

    def write_outset0(self, value: int) -> None:
        self._set_out(0, self._out[0] | value)

    def write_outset1(self, value: int) -> None:
        self._set_out(1, self._out[1] | value)

    def write_outclr0(self, value: int) -> None:
        self._set_out(0, self._out[0] & ~value)

    def write_outclr1(self, value: int) -> None:
        self._set_out(1, self._out[1] & ~value)

    def _set_out(self, group: int, value: int) -> None:
        changed, self._out[group] = self._out[group] ^ value, value
        (window_group, window), (cs_group, cs) = self._window, self._card_cs
        if group == window_group and changed >> window & 1:
            raised = bool(value >> window & 1)
            if raised and not self._drives[group] >> window & 1:
                raise EmulationError("the window line is raised while its pin is an input")
            self._power.window(raised)
        if group == 0 and changed >> SCK_PIN & 1:
            self._clock_by_hand()
        if group == cs_group and changed >> cs & 1:
            self._by_hand.restart()
            self._card.select(not value >> cs & 1)


class TimerState(ctypes.Structure):
    """``struct samd21_timer`` of native/samd21.h."""

    _fields_ = [
        ("started_at", ctypes.c_uint64),
        ("due", ctypes.c_uint64),
        ("cycles_a_tick", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("requested", ctypes.c_uint32),
        ("is_requested", ctypes.c_uint32),
    ]


class Timer(Peripheral):
    """30 TC4 joined with TC5: a 32-bit counter with one compare channel."""

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
    MC0 = 1 << 4

    SHARED: ClassVar[dict[str, str]] = {"COUNT32.INTENSET": "interrupts"}

    def __init__(self, clock: Clock, gates: PowerManager, clocks: GenericClocks, state: TimerState) -> None:
        self._clock = clock
        self._gates = gates
        self._clocks = clocks
        self.state = state
        super().__init__("TC4", 0x42003000)

    def power_on(self) -> None:
        super().power_on()
        clear(self.state)
        self.state.due = NEVER

    def wakes_at(self) -> int | None:
        """When the compare interrupt will be pending, in cycles."""
        state = self.state
        if not state.interrupts & self.MC0 or (not state.flags & self.MC0 and state.due == NEVER):
            return None
        return self._clock.now if state.flags & self.MC0 else int(state.due)

    def _ticks(self) -> int:
        if not self.state.cycles_a_tick:
            raise EmulationError("TC4 is read before it is enabled")
        return int((self._clock.now - self.state.started_at) // self.state.cycles_a_tick) & 0xFFFFFFFF

    def write_count32_ctrla(self, value: int) -> None:
        self._gates.require(TC4_GATE | TC5_GATE, "TC4")
        self._clocks.require_full_speed(GCLK_TC4_TC5, self._clock, "TC4")
        if value & 1:
            self.power_on()
            return
        self.values["COUNT32.CTRLA"] = value
        if value & 2:
            if value >> 2 & 3 != 2:
                raise EmulationError("TC4 is modelled as a 32-bit counter (CTRLA.MODE 2) alone")
            self.state.started_at = self._clock.now
            self.state.cycles_a_tick = PRESCALERS[value >> 8 & 7]

    def write_count32_readreq(self, value: int) -> None:
        if value != 0x8010:
            raise EmulationError(f"TC4: read request 0x{value:04X} is not modelled, only one for COUNT")
        self.state.requested, self.state.is_requested = self._ticks(), True

    def read_count32_count(self) -> int:
        if not self.state.is_requested:
            raise EmulationError("TC4: COUNT is read without a read request")
        self.state.is_requested = False
        return int(self.state.requested)

    def write_count32_cc0(self, value: int) -> None:
        self.values["COUNT32.CC0"] = value
        left = (value - self._ticks() - 1 & 0xFFFFFFFF) + 1
        self.state.due = self._clock.now + left * self.state.cycles_a_tick

    def read_count32_intflag(self) -> int:
        if self._clock.now >= self.state.due:
            self.state.flags |= self.MC0
            self.state.due += self.state.cycles_a_tick << 32
        return int(self.state.flags)

    def write_count32_intflag(self, value: int) -> None:
        self.state.flags &= ~value

    def write_count32_intenset(self, value: int) -> None:
        self.state.interrupts |= value

    def write_count32_intenclr(self, value: int) -> None:
        self.state.interrupts &= ~value


class Usart(Peripheral):
    """26 SERCOM5 as USART on PB22 and PB23."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "USART.CTRLA": Register(0x00),
        "USART.CTRLB": Register(0x04),
        "USART.BAUD": Register(0x0C, 2),
        "USART.INTFLAG": Register(0x18, 1),
        "USART.SYNCBUSY": Register(0x1C),
        "USART.DATA": Register(0x28, 2),
    }
    DRE, TXC, RXC = 1 << 0, 1 << 1, 1 << 2
    # Internal clock, least significant bit first, receives on pad 3, sends on pad 2, enabled.
    CTRLA = 1 << 2 | 1 << 30 | 3 << 20 | 1 << 16 | 1 << 1

    def __init__(
        self,
        clock: Clock,
        gates: PowerManager,
        clocks: GenericClocks,
        ports: Ports,
        line: SerialLine,
        starvation: Starvation,
    ) -> None:
        self._clock = clock
        self._gates = gates
        self._clocks = clocks
        self._ports = ports
        self._line = line
        self._starvation = starvation
        super().__init__("SERCOM5", 0x42001C00)

    def power_on(self) -> None:
        super().power_on()
        self._received: int | None = None
        self._next_arrival = 0
        # Two bytes can be under way: one in the shift register, one in the buffer.
        self._sent_at = 0
        self._buffer_free_at = 0
        self._sent_any = False

    def write_usart_ctrla(self, value: int) -> None:
        self._gates.require(SERCOM5_GATE, "SERCOM5")
        if value & 1:
            self.power_on()
            return
        if value & 2 and not self._ports_ready():
            raise EmulationError("SERCOM5 is enabled before PB22 and PB23 are given to it (PMUX D)")
        self.values["USART.CTRLA"] = value

    def _ports_ready(self) -> bool:
        return all(self._ports.is_multiplexed(1, pin, MULTIPLEX_D) for pin in (22, 23))

    def _byte_cycles(self) -> int:
        self._clocks.require_full_speed(GCLK_SERCOM5, self._clock, "SERCOM5")
        values = self.values
        if values["USART.CTRLA"] != self.CTRLA or values["USART.CTRLB"] != 1 << 16 | 1 << 17:
            raise EmulationError("SERCOM5 is used in a mode that is not modelled, or before it is enabled")
        baud = self._clock.hz / 16 * (1 - values["USART.BAUD"] / 65536)
        return self._clock.cycles(BITS_A_BYTE / baud)

    def read_usart_intflag(self) -> int:
        byte_cycles = self._byte_cycles()
        flags = 0
        if self._received is None and self._line.waiting:
            self._clock.advance_to(self._next_arrival)
            self._received = self._line.receive()
            self._next_arrival = self._clock.now + byte_cycles
            self._starvation.busy()
        if self._received is not None:
            flags |= self.RXC
        if self._clock.now < self._buffer_free_at:
            self._clock.advance_to(self._buffer_free_at)
        elif self._clock.now < self._sent_at:
            self._clock.advance_to(self._sent_at)
        elif self._received is None:
            self._starvation.empty_poll(self._clock.now)
        flags |= self.DRE
        if self._sent_any and self._clock.now >= self._sent_at:
            flags |= self.TXC
        return flags

    def write_usart_intflag(self, value: int) -> None:
        if value & self.TXC:
            self._sent_any = False

    def read_usart_data(self) -> int:
        if self._received is None:
            raise EmulationError("SERCOM5: DATA is read while nothing has come")
        byte, self._received = self._received, None
        return byte

    def write_usart_data(self, value: int) -> None:
        byte_cycles = self._byte_cycles()
        if self._clock.now < self._buffer_free_at:
            raise EmulationError("SERCOM5: a byte is written before DRE is set")
        begins = max(self._clock.now, self._sent_at)
        self._buffer_free_at, self._sent_at = begins, begins + byte_cycles
        self._sent_any = True
        self._line.send(value & 0xFF)
        self._starvation.busy()


class SpiState(ctypes.Structure):
    """``struct samd21_spi`` of native/samd21.h."""

    _fields_ = [
        ("begins_at", ctypes.c_uint64),
        ("ends_at", ctypes.c_uint64),
        ("arrives_at", ctypes.c_uint64 * (MOST_MOVING + 1)),
        ("byte_cycles", ctypes.c_uint64),
        ("moving", ctypes.c_uint32),
        ("received", ctypes.c_uint8 * (MOST_MOVING + 1)),
        ("ready", ctypes.c_uint8),
    ]


class SpiMaster(Peripheral):
    """27 SERCOM1 as SPI master on PA16 (data out), PA17 (clock) and PA19 (data in)."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "SPI.CTRLA": Register(0x00),
        "SPI.CTRLB": Register(0x04),
        "SPI.BAUD": Register(0x0C, 1),
        "SPI.INTFLAG": Register(0x18, 1),
        "SPI.SYNCBUSY": Register(0x1C),
        "SPI.DATA": Register(0x28),
    }
    DRE, TXC, RXC = 1 << 0, 1 << 1, 1 << 2
    CTRLA = 3 << 2 | 3 << 20 | 1 << 1  # master, data in on pad 3, data out on pad 0, mode 0, enabled

    def __init__(
        self,
        clock: Clock,
        gates: PowerManager,
        clocks: GenericClocks,
        ports: Ports,
        bus: SpiBus,
        state: SpiState,
    ) -> None:
        self._clock = clock
        self._gates = gates
        self._clocks = clocks
        self._ports = ports
        self._bus = bus
        self.state = state
        super().__init__("SERCOM1", 0x42000C00)

    def power_on(self) -> None:
        super().power_on()
        clear(self.state)

    def write_spi_ctrla(self, value: int) -> None:
        self._gates.require(SERCOM1_GATE, "SERCOM1")
        if value & 1:
            self.power_on()
            return
        if value & 2 and not all(self._ports.is_multiplexed(0, pin, MULTIPLEX_C) for pin in (16, 17, 19)):
            raise EmulationError("SERCOM1 is enabled before PA16, PA17 and PA19 are given to it (PMUX C)")
        self.values["SPI.CTRLA"] = value

    def write_spi_baud(self, value: int) -> None:
        if self.values["SPI.CTRLA"] & 2:
            raise EmulationError("SERCOM1: BAUD is written while the SERCOM is enabled")
        self.values["SPI.BAUD"] = value

    def write_spi_data(self, value: int) -> None:
        self._clocks.require_full_speed(GCLK_SERCOM1, self._clock, "SERCOM1")
        if self.values["SPI.CTRLA"] != self.CTRLA or self.values["SPI.CTRLB"] != 1 << 17:
            raise EmulationError("SERCOM1 is used in a mode that is not modelled, or before it is enabled")
        state = self.state
        if self._clock.now < state.begins_at:
            raise EmulationError("SERCOM1: a byte is written before DRE is set")
        if state.moving >= MOST_MOVING:
            raise EmulationError("SERCOM1: the receive buffer overflows")
        rate = self._clock.hz / (2 * (self.values["SPI.BAUD"] + 1))
        begin = max(self._clock.now, int(state.ends_at))
        received, state.ends_at = self._bus.poll(bytes([value & 0xFF]), begin, rate)
        state.begins_at = begin
        state.received[state.moving], state.arrives_at[state.moving] = received[0], state.ends_at
        state.moving += 1
        state.byte_cycles, state.ready = self._bus.duration(1, rate), True

    def read_spi_intflag(self) -> int:
        state = self.state
        arrivals = state.arrives_at[: state.moving]
        coming = [when for when in (state.begins_at, *arrivals) if when > self._clock.now]
        arrived = bool(arrivals) and arrivals[0] <= self._clock.now
        if coming and not arrived:
            self._clock.advance_to(min(coming))
        now = self._clock.now
        flags = self.DRE if now >= state.begins_at else 0
        if arrivals and now >= arrivals[0]:
            flags |= self.RXC
        return flags | (self.TXC if now >= state.ends_at else 0)

    def read_spi_data(self) -> int:
        state = self.state
        if not state.moving or self._clock.now < state.arrives_at[0]:
            raise EmulationError("SERCOM1: DATA is read before a byte has come")
        received, left = int(state.received[0]), state.moving - 1
        state.received[:left] = state.received[1 : left + 1]
        state.arrives_at[:left] = state.arrives_at[1 : left + 1]
        state.moving = left
        return received


class ChipState(ctypes.Structure):
    """``struct samd21`` of native/samd21.h."""

    _fields_ = [
        ("timer", TimerState),
        ("spi", SpiState),
        ("bus", SpiBusState),
        ("machine", ctypes.POINTER(MachineState)),
        ("nvic", ctypes.POINTER(NvicState)),
    ]


class Samd21:
    """The chip: every peripheral that the firmware uses."""

    def __init__(
        self,
        board: Board,
        variation: Variation,
        machine: Machine,
        card: SdCard,
        power: Power,
        line: SerialLine,
        starvation: Starvation,
        _seed: int,
    ) -> None:
        clock = machine.clock
        gates = PowerManager()
        self._gates = gates
        oscillators = Oscillators(clock, variation.crystal_starts)
        clocks = GenericClocks(oscillators)
        assert board.pins is not None
        ports = Ports(card, power, clock, board.pins)
        self._core = SystemControlSpace(lambda: machine.request_reset("request"))
        state = ChipState(machine=ctypes.pointer(machine.state), nvic=ctypes.pointer(self._core.state))
        self._timer = Timer(clock, gates, clocks, state.timer)
        spi = SpiMaster(clock, gates, clocks, ports, SpiBus(card, clock, state.bus), state.spi)
        self.native = NativeChip("samd21", state, card.attend)
        self.bus = Bus(
            (
                gates,
                oscillators,
                clocks,
                FlashControl(),
                ports,
                self._timer,
                Usart(clock, gates, clocks, ports, line, starvation),
                spi,
                self._core,
            )
        )
        self._card = card
        self._power = power

    def next_interrupt(self) -> tuple[int, int] | None:
        """See `poet_harness.emulation.machine.Chip`."""
        when = self._timer.wakes_at() if self._core.is_enabled(TC4_IRQ) else None
        return None if when is None else (when, TC4_IRQ)

    @property
    def debug_locked(self) -> bool:
        """See `poet_harness.emulation.machine.Chip`. The security bit is never set."""
        return False

    def reset(self, cause: Cause) -> None:
        """Pins float: pull-ups release the card, a pull-down ends the window."""
        self.bus.power_on()
        self._gates.came_up(cause)
        self._card.select(False)
        self._power.window(False)
