# SPDX-License-Identifier: Apache-2.0
"""The STM32F411 around its CPU, as far as firmware/boards/stm32f411 uses it.

Sections are those of the reference manual RM0383. A pin is its port times 32 and its place there. All of it is Python:
there is no compiled half. The flash is taken to hide its wait states, as its accelerator does for code in its cache.
"""

from __future__ import annotations

from typing import ClassVar

from poet_profiles.boards import Board, pin_number

from .bus import Bus, EmulationError, Peripheral, Register
from .clock import Clock
from .core_registers import SystemControlSpace
from .counter import NEVER
from .machine import Machine, Memory
from .machine_state import NativeChip
from .power import Power
from .sdcard import SdCard
from .serial_line import SerialLine, Starvation
from .spi_bus import SpiBus
from .variation import Cause, Variation

MEMORY = Memory(0x08000000, 0x08000000, 512 * 1024, 0x20000000, 128 * 1024)

TIM2_IRQ = 28
GATES = {"GPIOA": ("AHB1ENR", 0), "GPIOB": ("AHB1ENR", 1), "GPIOC": ("AHB1ENR", 2), "TIM2": ("APB1ENR", 0)} | {
    "USART2": ("APB1ENR", 17),
    "PWR": ("APB1ENR", 28),
    "SPI1": ("APB2ENR", 12),
}
BUS_DIVIDER = 2
USART_FUNCTION, SPI_FUNCTION = 7, 5
ALTERNATE, OUTPUT = 2, 1
BITS_A_BYTE = 10
MOST_BAUD_ERROR = 0.02
CRYSTAL_START_S = 2e-3  # data sheet DS10314, HSE start-up time, typical
PLL_LOCK_S = 100e-6  # data sheet, PLL lock time, the longest for this input
PLL_INPUT_HZ, PLL_OUTPUT_HZ = (1e6, 2e6), (100e6, 432e6)
FULL_SPEED_LATENCY, FULL_SPEED_VOLTAGE = 3, 3


class ResetAndClocks(Peripheral):
    """6.3 RCC."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CR": Register(0x00, reset=0x00000083),
        "PLLCFGR": Register(0x04, reset=0x24003010),
        "CFGR": Register(0x08),
        "AHB1ENR": Register(0x30, reset=0x00100000),
        "APB1ENR": Register(0x40),
        "APB2ENR": Register(0x44),
        "CSR": Register(0x74, reset=0x0E000000),
    }
    HSEON, HSERDY, HSEBYP, PLLON, PLLRDY = 1 << 16, 1 << 17, 1 << 18, 1 << 24, 1 << 25
    CAUSES: ClassVar[dict[Cause, int]] = {"power": 0x0E000000, "pin": 1 << 26, "request": 0x14000000, "lockup": 1 << 26}

    def __init__(self, board: Board, clock: Clock, crystal_starts: bool) -> None:
        self._board = board
        self._clock = clock
        self._crystal_starts = crystal_starts
        self.flash: FlashControl
        self.supply: PowerControl
        self._causes = 0
        super().__init__("RCC", 0x40023800)

    def came_up(self, cause: Cause) -> None:
        """Causes add up until the firmware clears them or the supply fails."""
        self._causes = self.CAUSES[cause] | (self._causes if cause != "power" else 0)

    def read_csr(self) -> int:
        return self._causes

    def write_csr(self, value: int) -> None:
        if value >> 24 & 1:
            self._causes = 0

    def write_cr(self, value: int) -> None:
        before = self.values["CR"]
        value &= ~(self.HSERDY | self.PLLRDY)
        if value & self.HSEON and self._crystal_starts:
            if bool(value & self.HSEBYP) != self._board.crystal_is_clock:
                raise EmulationError("RCC: HSEBYP does not fit what the board feeds the chip with")
            self._reach(CRYSTAL_START_S if not before & self.HSEON and not value & self.HSEBYP else 0.0)
            value |= self.HSERDY
        if value & self.PLLON:
            if not value & self.HSERDY:
                raise EmulationError("RCC: the PLL is started before its input is ready")
            self._pll_hz()
            self._reach(PLL_LOCK_S if not before & self.PLLON else 0.0)
            value |= self.PLLRDY
        self.values["CR"] = value

    def _reach(self, seconds: float) -> None:
        if seconds:
            self._clock.advance_to(self._clock.now + self._clock.cycles(seconds))

    def _pll_hz(self) -> float:
        value = self.values["PLLCFGR"]
        if not value >> 22 & 1:
            raise EmulationError("RCC: the PLL is modelled with HSE as its input alone")
        into = (self._board.crystal_hz or 0) / max(1, value & 0x3F)
        between = into * (value >> 6 & 0x1FF)
        limits = ((into, PLL_INPUT_HZ), (between, PLL_OUTPUT_HZ))
        if not all(low <= hz <= high for hz, (low, high) in limits):
            raise EmulationError(f"RCC: the PLL turns {into:.0f} Hz into {between:.0f} Hz, outside of what it can do")
        return between / (2 * (value >> 16 & 3) + 2)

    def write_cfgr(self, value: int) -> None:
        value &= ~0xC
        if value & 3 == 2:
            if not self.values["CR"] & self.PLLRDY:
                raise EmulationError("RCC: the PLL is chosen before it is ready")
            if self._pll_hz() != self._clock.hz:
                raise EmulationError(
                    f"RCC: the PLL gives {self._pll_hz():.0f} Hz, the board's file says {self._clock.hz}"
                )
            if self.flash.latency < FULL_SPEED_LATENCY or self.supply.voltage_scale != FULL_SPEED_VOLTAGE:
                raise EmulationError("RCC: this clock needs three wait states and the core's highest voltage")
            value |= 2 << 2
        self.values["CFGR"] = value

    def require(self, peripheral: str) -> None:
        """A peripheral is used: its clock must be on."""
        register, bit = GATES[peripheral]
        if not self.values[register] >> bit & 1:
            raise EmulationError(f"{peripheral} is used while its clock is off")

    def require_full_speed(self, peripheral: str) -> None:
        """The same, and the buses must have their final clock: half the core's."""
        self.require(peripheral)
        if self.values["CFGR"] & 0xFC0F != 4 << 10 | 4 << 13 | 0xA:
            raise EmulationError(f"{peripheral} is used before both buses run at half the PLL's clock")


class FlashControl(Peripheral):
    """3.8 Flash interface."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ACR": Register(0x00)}

    def __init__(self) -> None:
        super().__init__("FLASH", 0x40023C00)

    @property
    def latency(self) -> int:
        """Wait states."""
        return self.values["ACR"] & 0xF


class PowerControl(Peripheral):
    """5.4 PWR."""

    REGISTERS: ClassVar[dict[str, Register]] = {"CR": Register(0x00)}

    def __init__(self, clocks: ResetAndClocks) -> None:
        self._clocks = clocks
        super().__init__("PWR", 0x40007000)

    def write_cr(self, value: int) -> None:
        self._clocks.require("PWR")
        self.values["CR"] = value

    @property
    def voltage_scale(self) -> int:
        """3 is scale 1, the highest."""
        return self.values["CR"] >> 14 & 3


class Port(Peripheral):
    """8.4 GPIO, one port. It may carry the window line and the card's chip select."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "MODER": Register(0x00),
        "PUPDR": Register(0x0C),
        "BSRR": Register(0x18),
        "AFRL": Register(0x20),
        "AFRH": Register(0x24),
    }

    def __init__(self, number: int, board: Board, clocks: ResetAndClocks, card: SdCard, power: Power) -> None:
        assert board.pins is not None
        self._clocks = clocks
        self._card = card
        self._power = power
        self._window, self._card_cs = (
            pin % 32 if pin // 32 == number else None
            for pin in (pin_number(board.pins.window), pin_number(board.pins.card_cs))
        )
        super().__init__(f"GPIO{'ABC'[number]}", 0x40020000 + 0x400 * number)

    def power_on(self) -> None:
        super().power_on()
        self.out = 0

    def mode(self, pin: int) -> int:
        """0 input, 1 output, 2 a peripheral's."""
        return self.values["MODER"] >> 2 * pin & 3

    def is_pulled_up(self, pin: int) -> bool:
        """Whether a pin has a pull-up."""
        return self.values["PUPDR"] >> 2 * pin & 3 == 1

    def is_given(self, pin: int, function: int) -> bool:
        """Whether a pin is a peripheral's."""
        functions = self.values["AFRH" if pin >= 8 else "AFRL"]
        return self.mode(pin) == ALTERNATE and functions >> 4 * (pin % 8) & 0xF == function

    def write_moder(self, value: int) -> None:
        self._clocks.require(self.name)
        self.values["MODER"] = value

    def read_bsrr(self) -> int:
        return 0

    def write_bsrr(self, value: int) -> None:
        self._clocks.require(self.name)
        before, self.out = self.out, (self.out & ~(value >> 16) | value) & 0xFFFF
        changed = before ^ self.out
        if self._window is not None and changed >> self._window & 1:
            if self.mode(self._window) != OUTPUT and self.out >> self._window & 1:
                raise EmulationError("the window line is raised while its pin is an input")
            self._power.window(bool(self.out >> self._window & 1))
        if self._card_cs is not None and changed >> self._card_cs & 1:
            self._card.select(not self.out >> self._card_cs & 1)


class PortA(Port):
    """With the debug port's pins, as they come out of reset."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        **Port.REGISTERS,
        "MODER": Register(0x00, reset=0xA8000000),
        "PUPDR": Register(0x0C, reset=0x64000000),
    }


class PortB(Port):
    """The same."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        **Port.REGISTERS,
        "MODER": Register(0x00, reset=0x00000280),
        "PUPDR": Register(0x0C, reset=0x00000100),
    }


class Timer(Peripheral):
    """13.4 TIM2 as a counter that runs freely, with one compare channel. Its clock is the core's."""

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
    CC1 = 1 << 1

    def __init__(self, clock: Clock, clocks: ResetAndClocks) -> None:
        self._clock = clock
        self._clocks = clocks
        super().__init__("TIM2", 0x40000000)

    def power_on(self) -> None:
        super().power_on()
        self._started_at: int | None = None
        self._cycles_a_tick = 1
        self._due = NEVER

    def wakes_at(self) -> int | None:
        """When the compare interrupt will be pending, in cycles."""
        if not self.values["DIER"] & self.CC1:
            return None
        if self.values["SR"] & self.CC1:
            return self._clock.now
        return self._due if self._due != NEVER else None

    def _ticks(self) -> int:
        if self._started_at is None:
            raise EmulationError("TIM2 is read before it is started")
        return (self._clock.now - self._started_at) // self._cycles_a_tick & 0xFFFFFFFF

    def write_egr(self, value: int) -> None:
        self._clocks.require_full_speed("TIM2")
        if value & 1:
            self._cycles_a_tick = self.values["PSC"] + 1
            self._started_at = self._clock.now if self._started_at is not None else None

    def write_cr1(self, value: int) -> None:
        self._clocks.require_full_speed("TIM2")
        if value != 1 or self.values["ARR"] != 0xFFFFFFFF:
            raise EmulationError(
                "TIM2 is modelled as a counter of 32 bits that runs freely (CR1 1, ARR 0xFFFFFFFF) alone"
            )
        self._started_at = self._clock.now

    def read_cnt(self) -> int:
        return self._ticks()

    def write_ccr1(self, value: int) -> None:
        self.values["CCR1"] = value
        left = (value - self._ticks() - 1 & 0xFFFFFFFF) + 1
        self._due = self._clock.now + left * self._cycles_a_tick

    def read_sr(self) -> int:
        if self._clock.now >= self._due:
            self.values["SR"] |= self.CC1
            self._due += self._cycles_a_tick << 32
        return self.values["SR"]

    def write_sr(self, value: int) -> None:
        self.values["SR"] &= value


class Usart(Peripheral):
    """19.6 USART2 on PA02 and PA03."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "SR": Register(0x00, reset=0xC0),
        "DR": Register(0x04),
        "BRR": Register(0x08),
        "CR1": Register(0x0C),
    }
    RXNE, TC, TXE = 1 << 5, 1 << 6, 1 << 7
    CR1 = 1 << 13 | 1 << 3 | 1 << 2

    def __init__(
        self, board: Board, clock: Clock, clocks: ResetAndClocks, port: Port, line: SerialLine, starvation: Starvation
    ) -> None:
        self._baud = board.baud
        self._clock = clock
        self._clocks = clocks
        self._port = port
        self._line = line
        self._starvation = starvation
        super().__init__("USART2", 0x40004400)

    def power_on(self) -> None:
        super().power_on()
        self._received: int | None = None
        # Two bytes can be under way: one in the shift register, one in the buffer.
        self._next_arrival = self._sent_at = self._buffer_free_at = 0

    def _byte_cycles(self) -> int:
        self._clocks.require_full_speed("USART2")
        given = all(self._port.is_given(pin, USART_FUNCTION) for pin in (2, 3))
        if self.values["CR1"] != self.CR1 or not given or not self.values["BRR"]:
            raise EmulationError("USART2 is used in a mode that is not modelled, or before it has PA02 and PA03 (AF7)")
        baud = self._clock.hz / BUS_DIVIDER / self.values["BRR"]
        if abs(baud / self._baud - 1) > MOST_BAUD_ERROR:
            raise EmulationError(f"USART2: {baud:.0f} baud, the board's file says {self._baud}")
        return self._clock.cycles(BITS_A_BYTE / baud)

    def read_sr(self) -> int:
        byte_cycles, flags = self._byte_cycles(), self.TXE
        if self._received is None and self._line.waiting:
            self._clock.advance_to(self._next_arrival)
            self._received = self._line.receive()
            self._next_arrival = self._clock.now + byte_cycles
            self._starvation.busy()
        if self._received is not None:
            flags |= self.RXNE
        if self._clock.now < self._buffer_free_at:
            self._clock.advance_to(self._buffer_free_at)
        elif self._clock.now < self._sent_at:
            self._clock.advance_to(self._sent_at)
        elif self._received is None:
            self._starvation.empty_poll(self._clock.now)
        return flags | (self.TC if self._clock.now >= self._sent_at else 0)

    def read_dr(self) -> int:
        if self._received is None:
            raise EmulationError("USART2: DR is read while nothing has come")
        byte, self._received = self._received, None
        return byte

    def write_dr(self, value: int) -> None:
        byte_cycles = self._byte_cycles()
        if self._clock.now < self._buffer_free_at:
            raise EmulationError("USART2: a byte is written before TXE is set")
        begins = max(self._clock.now, self._sent_at)
        self._buffer_free_at, self._sent_at = begins, begins + byte_cycles
        self._line.send(value & 0xFF)
        self._starvation.busy()


class SpiMaster(Peripheral):
    """20.5 SPI1."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CR1": Register(0x00),
        "SR": Register(0x08, reset=0x02),
        "DR": Register(0x0C),
    }
    RXNE, TXE, BSY = 1 << 0, 1 << 1, 1 << 7
    SPE, BR = 1 << 6, 7 << 3
    CR1 = 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9  # master, enabled, chip select in software

    def __init__(
        self, board: Board, clock: Clock, clocks: ResetAndClocks, ports: tuple[Port, ...], bus: SpiBus
    ) -> None:
        assert board.pins is not None
        names = (board.pins.card_sck, board.pins.card_miso, board.pins.card_mosi)
        self._pins = [divmod(pin_number(name), 32) for name in names]
        self._clock = clock
        self._clocks = clocks
        self._ports = ports
        self._bus = bus
        super().__init__("SPI1", 0x40013000)

    def power_on(self) -> None:
        super().power_on()
        self._begins_at = self._ends_at = 0
        self._arriving: list[tuple[int, int]] = []  # when, and the byte

    def write_cr1(self, value: int) -> None:
        self._clocks.require_full_speed("SPI1")
        before = self.values["CR1"]
        if before & value & self.SPE and (before ^ value) & self.BR:
            raise EmulationError("SPI1: the divider changes while SPE is on")
        if before & self.SPE and not value & self.SPE and self._clock.now < self._ends_at:
            raise EmulationError("SPI1 is switched off while a byte moves")
        if value & self.SPE and not all(self._ports[port].is_given(pin, SPI_FUNCTION) for port, pin in self._pins):
            raise EmulationError("SPI1 is enabled before the card's pins are given to it (AF5)")
        self.values["CR1"] = value

    def write_dr(self, value: int) -> None:
        if self.values["CR1"] & ~self.BR != self.CR1:
            raise EmulationError("SPI1 is used in a mode that is not modelled, or before it is enabled")
        if self._clock.now < self._begins_at:
            raise EmulationError("SPI1: a byte is written before TXE is set")
        if len(self._arriving) > 1:
            raise EmulationError("SPI1: the receive buffer overflows")
        rate = self._clock.hz / BUS_DIVIDER / (2 << (self.values["CR1"] >> 3 & 7))
        begin = max(self._clock.now, self._ends_at)
        received, self._ends_at = self._bus.poll(bytes([value & 0xFF]), begin, rate)
        self._begins_at = begin
        self._arriving.append((self._ends_at, received[0]))

    def read_sr(self) -> int:
        arrivals = [when for when, _ in self._arriving]
        coming = [when for when in (self._begins_at, *arrivals) if when > self._clock.now]
        if coming and not (arrivals and arrivals[0] <= self._clock.now):
            self._clock.advance_to(min(coming))
        now = self._clock.now
        flags = self.TXE if now >= self._begins_at else 0
        if arrivals and now >= arrivals[0]:
            flags |= self.RXNE
        return flags | (self.BSY if now < self._ends_at else 0)

    def read_dr(self) -> int:
        if not self._arriving or self._clock.now < self._arriving[0][0]:
            raise EmulationError("SPI1: DR is read before a byte has come")
        return self._arriving.pop(0)[1]


class Stm32f411:
    """The chip: every peripheral that the firmware uses."""

    native: NativeChip | None = None

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
        assert board.pins is not None
        clock = machine.clock
        self._clocks = clocks = ResetAndClocks(board, clock, variation.crystal_starts)
        clocks.flash, clocks.supply = FlashControl(), PowerControl(clocks)
        kinds = (PortA, PortB, Port)
        ports = tuple(kind(number, board, clocks, card, power) for number, kind in enumerate(kinds))
        port, pin = divmod(pin_number(board.pins.card_miso), 32)
        card.pulled_up = lambda: ports[port].is_pulled_up(pin)
        self._core = SystemControlSpace(lambda: machine.request_reset("request"))
        self._timer = Timer(clock, clocks)
        self.bus = Bus(
            (
                clocks,
                clocks.flash,
                clocks.supply,
                *ports,
                self._timer,
                Usart(board, clock, clocks, ports[0], line, starvation),
                SpiMaster(board, clock, clocks, ports, SpiBus(card, clock)),
                self._core,
            )
        )
        self._card = card
        self._power = power

    def next_interrupt(self) -> tuple[int, int] | None:
        """See `poet_harness.emulation.machine.Chip`."""
        when = self._timer.wakes_at() if self._core.is_enabled(TIM2_IRQ) else None
        return None if when is None else (when, TIM2_IRQ)

    @property
    def debug_locked(self) -> bool:
        """See `poet_harness.emulation.machine.Chip`. Read protection is never set."""
        return False

    def reset(self, cause: Cause) -> None:
        """Pins float: pull-ups release the card, a pull-down ends the window."""
        self.bus.power_on()
        self._clocks.came_up(cause)
        self._card.select(False)
        self._power.window(False)
