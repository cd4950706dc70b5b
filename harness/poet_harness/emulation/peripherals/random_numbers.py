# SPDX-License-Identifier: Apache-2.0
"""Random numbers."""

from __future__ import annotations

import random
from typing import ClassVar

from ..bus import Peripheral, Register
from ..parts import Parts


class NordicRandom(Peripheral):
    """nRF52840, 6.19 RNG. The numbers differ between power-ups and resets and repeat with the seed."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "TASKS_START": Register(0x000),
        "TASKS_STOP": Register(0x004),
        "EVENTS_VALRDY": Register(0x100),
        "VALUE": Register(0x508),
    }
    BYTE_S = 30e-6  # 6.19.2, without bias correction, typical

    def __init__(self, parts: Parts, name: str, base: int) -> None:
        self._clock = parts.clock
        self._random = random.Random(parts.seed)
        super().__init__(name, base)

    def power_on(self) -> None:
        super().power_on()
        self._running = False

    def write_tasks_start(self, _value: int) -> None:
        self._running = True

    def write_tasks_stop(self, _value: int) -> None:
        self._running = False

    def read_events_valrdy(self) -> int:
        if self._running and not self.values["EVENTS_VALRDY"]:
            self._clock.pass_by(self.BYTE_S)
            self.values.update(EVENTS_VALRDY=1, VALUE=self._random.getrandbits(8))
        return self.values["EVENTS_VALRDY"]
