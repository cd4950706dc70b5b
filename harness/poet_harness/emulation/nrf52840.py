# SPDX-License-Identifier: Apache-2.0
"""The nRF52840 around its CPU, as far as firmware/boards/nrf52840 uses it.

Sections are those of the nRF52840 Product Specification v1.7. A pin is its port times 32 and its place there.
"""

from __future__ import annotations

from .chip import Chip
from .machine import Memory
from .parts import Parts
from .peripherals.clock_tree import NordicClock
from .peripherals.compare_timer import NordicTimer
from .peripherals.debug_port import AccessPort, FactoryInformation, UserConfiguration, is_locked
from .peripherals.flash import NordicFlash
from .peripherals.gpio import NordicPort, OutputLines
from .peripherals.random_numbers import NordicRandom
from .peripherals.spi import NordicSpi
from .peripherals.supply import NordicPower
from .peripherals.uart import NordicUart

MEMORY = Memory(0x0000, 0x00000000, 1024 * 1024, 0x20000000, 256 * 1024)
SPIM0_IRQ, TIMER0_IRQ = 3, 8


class Nrf52840(Chip):
    """The chip."""

    def __init__(self, parts: Parts) -> None:
        lines = OutputLines(parts)
        ports = NordicPort("P0", 0x50000000, 0, lines), NordicPort("P1", 0x50000300, 1, lines)
        (card_miso,) = parts.pins("card_miso")
        parts.card.pulled_up = lambda: ports[card_miso // 32].is_pulled_up(card_miso % 32)
        power = NordicPower(parts, "POWER", 0x40000000)
        timer = NordicTimer(parts, "TIMER0", 0x40008000)
        spi = NordicSpi(parts, "SPIM0", 0x40003000, ports)
        self._debug = (
            AccessPort("APPROTECT", 0x40000000),
            UserConfiguration("UICR", 0x10001000, parts.variation.uicr_approtect),
            FactoryInformation("FICR", 0x10000000, parts.variation.revision_code),
        )
        peripherals = (
            NordicClock(parts, "CLOCK", 0x40000000),
            power,
            *self._debug,
            NordicFlash(parts, "NVMC", 0x4001E000),
            *ports,
            NordicRandom(parts, "RNG", 0x4000D000),
            timer,
            NordicUart(parts, "UART0", 0x40002000),
            spi,
        )
        super().__init__(parts, peripherals, (spi.interrupt(SPIM0_IRQ), timer.interrupt(TIMER0_IRQ)), power)

    @property
    def debug_locked(self) -> bool:
        """See `Chip`."""
        return is_locked(*self._debug)
