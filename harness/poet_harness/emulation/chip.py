# SPDX-License-Identifier: Apache-2.0
"""A chip: its peripherals on a bus, and the interrupts that they raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .bus import Bus, Peripheral
from .core_registers import SystemControlSpace
from .machine_state import Interrupt
from .parts import Parts
from .peripherals.flash import OwnFlash
from .variation import Cause


class KnowsCause(Protocol):
    """The peripheral that says why the chip came out of reset."""

    def came_up(self, cause: Cause) -> None:
        """The chip has been reset."""
        ...


class Chip:
    """Every peripheral that the firmware uses, and the core's own registers."""

    def __init__(
        self, parts: Parts, peripherals: Sequence[Peripheral], interrupts: Sequence[Interrupt], reset_cause: KnowsCause
    ) -> None:
        core = SystemControlSpace(lambda: parts.machine.request_reset("request"))
        self.nvic = core.state
        self.interrupts = interrupts
        self.bus = Bus((*peripherals, core))
        self.flash = next((one for one in peripherals if isinstance(one, OwnFlash)), None)
        self._parts = parts
        self._reset_cause = reset_cause

    def attend(self) -> None:
        """See `poet_harness.emulation.machine.Surroundings`."""
        self._parts.card.attend()

    @property
    def debug_locked(self) -> bool:
        """Whether a debug probe is refused."""
        return False

    def reset(self, cause: Cause) -> None:
        """Pins float: pull-ups release the card, a pull-down ends the window."""
        self.bus.power_on()
        self._reset_cause.came_up(cause)
        self._parts.card.select(False)
        self._parts.power.window(False)
