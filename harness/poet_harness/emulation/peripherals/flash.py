# SPDX-License-Identifier: Apache-2.0
"""Flash controllers, as far as the firmware sets them: caches and wait states. What the flash costs is counted in C."""

from __future__ import annotations

from typing import ClassVar

from ..bus import Peripheral, Register


class NordicFlash(Peripheral):
    """nRF52840, 4.3 NVMC."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ICACHECNF": Register(0x540)}


class NewerNordicCache(Peripheral):
    """nRF5340, CACHE."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ENABLE": Register(0x500)}


class SamFlash(Peripheral):
    """SAM D21, 22 NVMCTRL."""

    REGISTERS: ClassVar[dict[str, Register]] = {"CTRLB": Register(0x4)}


class StmFlash(Peripheral):
    """STM32F411, 3.8 Flash interface."""

    REGISTERS: ClassVar[dict[str, Register]] = {"ACR": Register(0x00)}

    @property
    def latency(self) -> int:
        """Wait states."""
        return self.values["ACR"] & 0xF
