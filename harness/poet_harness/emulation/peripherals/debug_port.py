# SPDX-License-Identifier: Apache-2.0
"""The locks of Nordic's debug ports, and what they hang on."""

from __future__ import annotations

from typing import ClassVar

from ..bus import Peripheral, Register

REVISION_CODE_F0 = 5
HARDWARE_DISABLED = 0x5A


class AccessPort(Peripheral):
    """4.8 APPROTECT, the firmware's half of the lock: each reset closes it (build code F0 and later)."""

    REGISTERS: ClassVar[dict[str, Register]] = {"DISABLE": Register(0x558)}


class UserConfiguration(Peripheral):
    """4.5 UICR: flash, which no reset changes."""

    REGISTERS: ClassVar[dict[str, Register]] = {"APPROTECT": Register(0x208, reset=0xFFFFFFFF)}

    def __init__(self, name: str, base: int, approtect: int) -> None:
        self._approtect = 0xFFFFFF00 | approtect
        super().__init__(name, base)

    def power_on(self) -> None:
        self.values["APPROTECT"] = self._approtect


class FactoryInformation(Peripheral):
    """4.4 FICR: part and revision as Nordic's nrfx reads them (`nrf52_configuration_249`)."""

    REGISTERS: ClassVar[dict[str, Register]] = {"PART_CODE": Register(0x130), "REVISION_CODE": Register(0x134)}

    def __init__(self, name: str, base: int, revision_code: int) -> None:
        self.revision_code = revision_code
        super().__init__(name, base)

    def power_on(self) -> None:
        self.values.update(PART_CODE=8, REVISION_CODE=self.revision_code)


def is_locked(port: AccessPort, user: UserConfiguration, factory: FactoryInformation) -> bool:
    """Whether a debug probe is refused."""
    allowed = user.values["APPROTECT"] & 0xFF
    if factory.revision_code < REVISION_CODE_F0:
        return allowed == 0x00
    return not allowed == port.values["DISABLE"] & 0xFF == HARDWARE_DISABLED
