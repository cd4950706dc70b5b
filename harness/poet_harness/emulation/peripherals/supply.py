# SPDX-License-Identifier: Apache-2.0
"""The supply of the core."""

from __future__ import annotations

from typing import ClassVar

from ..bus import Peripheral, Register
from ..parts import Parts
from ..variation import Cause


class NordicPower(Peripheral):
    """nRF52840, 5.3 POWER: reset causes, and the converter in front of the core. It starts on the linear regulator."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "RESETREAS": Register(0x400),
        "GPREGRET": Register(0x51C),
        "DCDCEN": Register(0x578),
    }
    CAUSES: ClassVar[dict[Cause, int]] = {"power": 0, "pin": 1 << 0, "request": 1 << 2, "lockup": 1 << 3}

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        regulator = parts.board.regulator
        self._power = parts.power
        self._ldo_ratio = regulator.ldo_current_ratio if regulator else 1.0
        self._causes = 0
        super().__init__(name, base)

    def power_on(self) -> None:
        self._retained = self.values["GPREGRET"] if self.values else 0
        super().power_on()
        self._power.cpu_draws(self._ldo_ratio)

    def came_up(self, cause: Cause) -> None:
        """Causes add up until the firmware clears them or the supply fails."""
        self._causes = self._causes | self.CAUSES[cause] if cause != "power" else 0
        self.values["GPREGRET"] = self._retained if cause != "power" else 0

    def read_resetreas(self) -> int:
        return self._causes

    def write_resetreas(self, value: int) -> None:
        self._causes &= ~value

    def write_dcdcen(self, value: int) -> None:
        self.values["DCDCEN"] = value
        self._power.cpu_draws(1.0 if value & 1 else self._ldo_ratio)
