# SPDX-License-Identifier: Apache-2.0
"""The STM32F411 around its CPU, as far as firmware/boards/stm32f411 uses it.

Sections are those of the reference manual RM0383. A pin is its port times 32 and its place there. The flash is taken to
hide its wait states, as its accelerator does for code in its cache.
"""

from __future__ import annotations

from .chip import Chip
from .machine import Memory
from .parts import Parts
from .peripherals.clock_tree import StmClocks, StmPowerControl
from .peripherals.compare_timer import StmTimer
from .peripherals.flash import StmFlash
from .peripherals.gpio import OutputLines, StmPort, StmPortA, StmPortB
from .peripherals.spi import StmSpi
from .peripherals.uart import StmUart

MEMORY = Memory(0x08000000, 0x08000000, 512 * 1024, 0x20000000, 128 * 1024)
TIM2_IRQ = 28
GATES = {
    "GPIOA": ("AHB1ENR", 0),
    "GPIOB": ("AHB1ENR", 1),
    "GPIOC": ("AHB1ENR", 2),
    "TIM2": ("APB1ENR", 0),
    "USART2": ("APB1ENR", 17),
    "PWR": ("APB1ENR", 28),
    "SPI1": ("APB2ENR", 12),
}
PORTS = (("GPIOA", StmPortA), ("GPIOB", StmPortB), ("GPIOC", StmPort))


class Stm32f411(Chip):
    """The chip."""

    def __init__(self, parts: Parts) -> None:
        flash, supply = StmFlash("FLASH", 0x40023C00), StmPowerControl("PWR", 0x40007000)
        clocks = StmClocks(parts, "RCC", 0x40023800, GATES, flash, supply)
        lines = OutputLines(parts)
        ports = tuple(
            port(name, 0x40020000 + 0x400 * number, number, lines, clocks.feed(name))
            for number, (name, port) in enumerate(PORTS)
        )
        (card_miso,) = parts.pins("card_miso")
        parts.card.pulled_up = lambda: ports[card_miso // 32].is_pulled_up(card_miso % 32)
        timer = StmTimer(parts, "TIM2", 0x40000000, clocks.feed("TIM2"))
        peripherals = (
            clocks,
            flash,
            supply,
            *ports,
            timer,
            StmUart(parts, "USART2", 0x40004400, clocks.feed("USART2"), ports[0]),
            StmSpi(parts, "SPI1", 0x40013000, clocks.feed("SPI1"), ports),
        )
        super().__init__(parts, peripherals, (timer.interrupt(TIM2_IRQ),), clocks)
