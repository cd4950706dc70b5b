# SPDX-License-Identifier: Apache-2.0
"""Clocks: oscillators, what multiplies them, and the gates through which they reach the peripherals.

Synchronisation between clock domains is taken to be over at the next access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ..bus import EmulationError, Peripheral, Register
from ..parts import Parts
from ..variation import Cause
from .flash import StmFlash


@dataclass(frozen=True)
class Feed:
    """Where a peripheral's clock comes from.

    Attributes
    ----------
    require_on, require_full_speed : callable
        Fault unless the gate is open, or the clock has the rate that the model counts on.
    """

    require_on: Callable[[], None]
    require_full_speed: Callable[[], None]


class NordicClock(Peripheral):
    """nRF52840, 5.4 CLOCK."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_HFCLKSTART": Register(0x000),
        "EVENTS_HFCLKSTARTED": Register(0x100),
    }
    START_S = 360e-6  # 5.4.6, start-up time of the 32 MHz crystal oscillator, typical

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        self._crystal_starts = parts.variation.crystal_starts
        super().__init__(name, base)

    def write_tasks_hfclkstart(self, _value: int) -> None:
        if self._crystal_starts:
            self._clock.pass_by(self.START_S)
            self.values["EVENTS_HFCLKSTARTED"] = 1


class SamPowerManager(Peripheral):
    """SAM D21, 16 PM: clock gates, and why the chip came out of reset. It knows no lock-up."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "APBCMASK": Register(0x20, reset=0x00010000),
        "RCAUSE": Register(0x38, 1, reset=1 << 0),
    }
    CAUSES: ClassVar[dict[Cause, int]] = {"power": 1 << 0, "pin": 1 << 4, "request": 1 << 6}

    def came_up(self, cause: Cause) -> None:
        """The last reset's cause stays until the next."""
        self.values["RCAUSE"] = self.CAUSES[cause]

    def require(self, gate: int, who: str) -> None:
        """Fault if a peripheral's bus clock is off: a real one would not answer."""
        if self.values["APBCMASK"] & gate != gate:
            raise EmulationError(f"{who} is used while its clock in PM.APBCMASK is off")


class SamOscillators(Peripheral):
    """SAM D21, 17 SYSCTRL: the crystal and the DFLL."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "PCLKSR": Register(0x0C),
        "XOSC32K": Register(0x14, 2, 0x0080),
        "OSC8M": Register(0x20, reset=0x87070382),
        "DFLLCTRL": Register(0x24, 2, 0x0080),
        "DFLLMUL": Register(0x2C),
    }
    CRYSTAL_HZ = 32768
    CRYSTAL_START_S = 1.0  # 37.13.2, start-up time of the 32 kHz crystal oscillator: up to about a second
    DFLL_LOCK_S = 200e-6  # 37.13.4, closed loop, coarse and fine lock, typical

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        self._crystal_starts = parts.variation.crystal_starts
        super().__init__(name, base)

    @property
    def crystal_hz(self) -> int:
        """What the crystal delivers: it is enabled, with its 32 kHz output, or 0."""
        return self.CRYSTAL_HZ if self._crystal_starts and self.values["XOSC32K"] & 0xE == 0xE else 0

    @property
    def dfll_hz(self) -> int:
        """What the DFLL delivers in closed loop; 0 while it is not set up so."""
        closed_loop = self.values["DFLLCTRL"] & 0x6 == 0x6
        return (self.values["DFLLMUL"] & 0xFFFF) * self.CRYSTAL_HZ if closed_loop else 0

    def write_xosc32k(self, value: int) -> None:
        was_running = self.crystal_hz
        self.values["XOSC32K"] = value
        if self.crystal_hz and not was_running:
            self._clock.pass_by(self.CRYSTAL_START_S)

    def write_dfllctrl(self, value: int) -> None:
        self.values["DFLLCTRL"] = value
        if self.dfll_hz:
            self._clock.pass_by(self.DFLL_LOCK_S)

    def write_dfllmul(self, value: int) -> None:
        if self.values["DFLLCTRL"] & 0x80:
            raise EmulationError("SYSCTRL: DFLLMUL is written in on-demand mode (errata reference 9905)")
        self.values["DFLLMUL"] = value

    def read_pclksr(self) -> int:
        ready = 1 << 3  # OSC8M runs from reset on
        if self.crystal_hz:
            ready |= 1 << 1
        if self.values["DFLLCTRL"] & 2:
            ready |= 1 << 4
        if self.dfll_hz and self.crystal_hz:
            ready |= 1 << 6 | 1 << 7
        return ready


class SamGenericClocks(Peripheral):
    """SAM D21, 15 GCLK: which oscillator feeds which generator, and which generator which peripheral."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "CTRL": Register(0x0, 1),
        "STATUS": Register(0x1, 1),
        "CLKCTRL": Register(0x2, 2),
        "GENCTRL": Register(0x4),
    }
    DFLL48 = 0  # the channel through which the DFLL gets its reference
    SOURCE_XOSC32K, SOURCE_DFLL48M = 5, 7

    def __init__(self, parts: Parts, name: str, base: int, oscillators: SamOscillators, gates: SamPowerManager) -> None:
        self._hz = parts.clock.hz
        self._oscillators = oscillators
        self._gates = gates
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._sources: dict[int, int] = {}
        self._feeds: dict[int, int] = {}

    def feed(self, who: str, gate: int, channel: int) -> Feed:
        """The clock of a peripheral: its gates in APBCMASK, and its channel here."""
        return Feed(partial(self._gates.require, gate, who), partial(self._require_full_speed, channel, who))

    def _rate(self, channel: int) -> int:
        """Clock rate at a peripheral's input, in Hz; 0 if none is connected."""
        generator = self._feeds.get(channel)
        source = self._sources.get(generator) if generator is not None else None
        if source == self.SOURCE_DFLL48M and self._rate(self.DFLL48) == self._oscillators.CRYSTAL_HZ:
            return self._oscillators.dfll_hz
        return self._oscillators.crystal_hz if source == self.SOURCE_XOSC32K else 0

    def _require_full_speed(self, channel: int, who: str) -> None:
        """Fault unless a peripheral is fed at the CPU's rate, to within half a percent."""
        rate = self._rate(channel)
        if abs(rate - self._hz) > self._hz // 200:
            raise EmulationError(f"{who} is used with a generic clock of {rate} Hz; {self._hz} Hz is modelled")

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


class StmPowerControl(Peripheral):
    """STM32F411, 5.4 PWR."""

    REGISTERS: ClassVar[dict[str, Register]] = {"CR": Register(0x00)}
    feed: Feed

    def write_cr(self, value: int) -> None:
        self.feed.require_on()
        self.values["CR"] = value

    @property
    def voltage_scale(self) -> int:
        """3 is scale 1, the highest."""
        return self.values["CR"] >> 14 & 3


class StmClocks(Peripheral):
    """STM32F411, 6.3 RCC. Both buses are modelled with half the core's clock.

    Parameters
    ----------
    gates : mapping
        The register and the bit that open each peripheral's gate.
    flash, supply
        What must be set before the core's clock is raised.
    """

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
    CRYSTAL_START_S = 2e-3  # data sheet DS10314, HSE start-up time, typical
    PLL_LOCK_S = 100e-6  # data sheet, PLL lock time, the longest for this input
    PLL_INPUT_HZ, PLL_OUTPUT_HZ = (1e6, 2e6), (100e6, 432e6)
    FULL_SPEED_LATENCY, FULL_SPEED_VOLTAGE = 3, 3
    FULL_SPEED_CFGR = 4 << 10 | 4 << 13 | 0xA

    def __init__(
        self,
        parts: Parts,
        name: str,
        base: int,
        gates: Mapping[str, tuple[str, int]],
        flash: StmFlash,
        supply: StmPowerControl,
    ) -> None:
        self._board = parts.board
        self._clock = parts.clock
        self._crystal_starts = parts.variation.crystal_starts
        self._gates = gates
        self._flash = flash
        self._supply = supply
        self._causes = 0
        supply.feed = self.feed(supply.name)
        super().__init__(name, base)

    def feed(self, who: str) -> Feed:
        """The clock of a peripheral."""
        return Feed(partial(self._require, who), partial(self._require_full_speed, who))

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
            if not before & self.HSEON and not value & self.HSEBYP:
                self._clock.pass_by(self.CRYSTAL_START_S)
            value |= self.HSERDY
        if value & self.PLLON:
            if not value & self.HSERDY:
                raise EmulationError("RCC: the PLL is started before its input is ready")
            self._pll_hz()
            if not before & self.PLLON:
                self._clock.pass_by(self.PLL_LOCK_S)
            value |= self.PLLRDY
        self.values["CR"] = value

    def _pll_hz(self) -> float:
        value = self.values["PLLCFGR"]
        if not value >> 22 & 1:
            raise EmulationError("RCC: the PLL is modelled with HSE as its input alone")
        into = (self._board.crystal_hz or 0) / max(1, value & 0x3F)
        between = into * (value >> 6 & 0x1FF)
        limits = ((into, self.PLL_INPUT_HZ), (between, self.PLL_OUTPUT_HZ))
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
            if self._flash.latency < self.FULL_SPEED_LATENCY or self._supply.voltage_scale != self.FULL_SPEED_VOLTAGE:
                raise EmulationError("RCC: this clock needs three wait states and the core's highest voltage")
            value |= 2 << 2
        self.values["CFGR"] = value

    def _require(self, who: str) -> None:
        register, bit = self._gates[who]
        if not self.values[register] >> bit & 1:
            raise EmulationError(f"{who} is used while its clock is off")

    def _require_full_speed(self, who: str) -> None:
        """The same, and the buses must have their final clock: half the core's."""
        self._require(who)
        if self.values["CFGR"] & 0xFC0F != self.FULL_SPEED_CFGR:
            raise EmulationError(f"{who} is used before both buses run at half the PLL's clock")
