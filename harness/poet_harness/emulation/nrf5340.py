# SPDX-License-Identifier: Apache-2.0
"""The nRF5340 around its application core, as far as firmware/boards/nrf5340 uses it.

Chapters are those of the nRF5340 Product Specification v1.3; addresses are those of the secure world. The network core
stays off. A pin is its port times 32 and its place there. The flash is taken to hide its wait states, as a cache does.
"""

from __future__ import annotations

from .chip import Chip
from .machine import Memory
from .parts import Parts
from .peripherals.clock_tree import NewerNordicClock
from .peripherals.compare_timer import NordicTimer
from .peripherals.debug_port import AccessPorts, FactoryTrims, NewerUserConfiguration, Unnamed
from .peripherals.flash import NewerNordicCache
from .peripherals.gpio import NewerNordicPort, OutputLines
from .peripherals.spi import NordicSpi
from .peripherals.supply import NewerNordicPower
from .peripherals.uart import NordicUarte

MEMORY = Memory(0x0000, 0x00000000, 1024 * 1024, 0x20000000, 512 * 1024)
SPIM0_IRQ, TIMER0_IRQ = 8, 15


class Nrf5340(Chip):
    """The chip."""

    def __init__(self, parts: Parts) -> None:
        lines = OutputLines(parts)
        ports = NewerNordicPort("P0", 0x50842500, 0, lines), NewerNordicPort("P1", 0x50842800, 1, lines)
        (card_miso,) = parts.pins("card_miso")
        parts.card.pulled_up = lambda: ports[card_miso // 32].is_pulled_up(card_miso % 32)
        power = NewerNordicPower(parts, "REGULATORS", 0x50004000)
        timer = NordicTimer(parts, "TIMER0", 0x5000F000)
        spi = NordicSpi(parts, "SPIM0", 0x50008000, ports)
        self._ports, self._user = AccessPorts("CTRLAP", 0x50006000), NewerUserConfiguration("UICR", 0x00FF8000)
        peripherals = (
            NewerNordicClock(parts, "CLOCK", 0x50005000),
            power,
            self._ports,
            self._user,
            FactoryTrims("FICR", 0x00FF0000),
            Unnamed("unnamed", 0),
            NewerNordicCache("CACHE", 0x50001000),
            *ports,
            timer,
            NordicUarte(parts, "UARTE1", 0x50009000),
            spi,
        )
        super().__init__(parts, peripherals, (spi.interrupt(SPIM0_IRQ), timer.interrupt(TIMER0_IRQ)), power)

    @property
    def debug_locked(self) -> bool:
        """See `Chip`."""
        opened = (self._ports.values[f"{lock}.DISABLE"] for lock in ("APPROTECT", "SECUREAPPROTECT"))
        return any(value != NewerUserConfiguration.UNPROTECTED for value in opened)
