# SPDX-License-Identifier: Apache-2.0
"""The SAMD21G18A of the MKR1000 around its CPU, as far as firmware/boards/samd21 uses it.

Chapters are those of the SAM D21/DA1 family data sheet DS40001882. Window line and chip select are those of the board's
file; the card's and the serial line's pins are the SERCOMs'.
"""

from __future__ import annotations

from .chip import Chip
from .machine import Memory
from .parts import Parts
from .peripherals.bit_banged_spi import BitBangedSpi
from .peripherals.clock_tree import SamGenericClocks, SamOscillators, SamPowerManager
from .peripherals.compare_timer import SamTimer
from .peripherals.flash import SamFlash
from .peripherals.gpio import OutputLines, SamPorts
from .peripherals.spi import SamSpi
from .peripherals.uart import SamUart
from .spi_bus import SpiBus, SpiBusState

# The bootloader holds the flash below 0x2000 and jumps there. At 48 MHz the flash has one wait state; its cache
# (22.6.7) has eight lines of 64 bits, is direct mapped, and fetches nothing ahead.
MEMORY = Memory(0x2000, 0x00000000, 256 * 1024, 0x20000000, 32 * 1024, flash_wait=1)
SERCOM1_GATE, SERCOM5_GATE, TC4_TC5_GATES = 1 << 3, 1 << 7, 1 << 12 | 1 << 13  # PM APBCMASK
GCLK_SERCOM1, GCLK_SERCOM5, GCLK_TC4_TC5 = 21, 25, 28
TC4_IRQ = 19


class Samd21(Chip):
    """The chip."""

    def __init__(self, parts: Parts) -> None:
        gates = SamPowerManager("PM", 0x40000400)
        oscillators = SamOscillators(parts, "SYSCTRL", 0x40000800)
        clocks = SamGenericClocks(parts, "GCLK", 0x40000C00, oscillators, gates)
        by_hand = BitBangedSpi(SpiBus(parts.card, parts.clock, SpiBusState()), parts.clock)
        ports = SamPorts("PORT", 0x41004400, OutputLines(parts), by_hand)
        parts.card.pulled_up = ports.pulls_up_card
        timer = SamTimer(parts, "TC4", 0x42003000, clocks.feed("TC4", TC4_TC5_GATES, GCLK_TC4_TC5))
        serial_feed = clocks.feed("SERCOM5", SERCOM5_GATE, GCLK_SERCOM5)
        spi_feed = clocks.feed("SERCOM1", SERCOM1_GATE, GCLK_SERCOM1)
        peripherals = (
            gates,
            oscillators,
            clocks,
            SamFlash(parts, "NVMCTRL", 0x41004000),
            ports,
            timer,
            SamUart(parts, "SERCOM5", 0x42001C00, serial_feed, ports),
            SamSpi(parts, "SERCOM1", 0x42000C00, spi_feed, ports),
        )
        super().__init__(parts, peripherals, (timer.interrupt(TC4_IRQ),), gates)
