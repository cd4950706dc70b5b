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


class AccessPorts(Peripheral):
    """nRF5340, CTRL-AP: two locks, closed by each reset."""

    REGISTERS: ClassVar[dict[str, Register]] = {
        "APPROTECT.DISABLE": Register(0x544),
        "SECUREAPPROTECT.DISABLE": Register(0x54C),
    }


class NewerUserConfiguration(Peripheral):
    """nRF5340, UICR, as tools leave it that keep the ports open."""

    UNPROTECTED = 0x50FA50FA
    REGISTERS: ClassVar[dict[str, Register]] = {
        "APPROTECT": Register(0x000, reset=UNPROTECTED),
        "SECUREAPPROTECT": Register(0x01C, reset=UNPROTECTED),
    }


class FactoryTrims(Peripheral):
    """nRF5340, FICR: addresses and what belongs there, up to the first address that is erased. Here one."""

    PLACE, VALUE = 0x50004A24, 0x2A
    REGISTERS: ClassVar[dict[str, Register]] = {
        "TRIMCNF[0].ADDR": Register(0x300, reset=PLACE),
        "TRIMCNF[0].DATA": Register(0x304, reset=VALUE),
        "TRIMCNF[1].ADDR": Register(0x308, reset=0xFFFFFFFF),
    }


class Unnamed(Peripheral):
    """nRF5340: registers that Nordic's SystemInit writes and no manual names."""

    ADDRESSES = (
        *(0x50004A20, 0x50004A24, 0x5000491C, 0x5000470C, 0x5000493C, 0x50002118, 0x50039E04, 0x50039E08),
        *(0x50101110, 0x50002124, 0x5000212C, 0x502012A0),
    )
    REGISTERS: ClassVar[dict[str, Register]] = {f"{address:08X}": Register(address) for address in ADDRESSES}
