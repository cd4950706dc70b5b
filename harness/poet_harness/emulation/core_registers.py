# SPDX-License-Identifier: Apache-2.0
"""Registers of the Cortex-M cores themselves that the firmware touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from .bus import EmulationError, NativePeripheral, Register
from .machine_state import NvicState

SYSRESETREQ = 0x05FA0004


class SystemControlSpace(NativePeripheral):
    """NVIC and SCB (Armv6-M and Armv7-M Architecture Reference Manuals, B3.2 and B3.4).

    Interrupts and faults are taken by `poet_harness.emulation.machine.Machine`.
    """

    REGISTERS: ClassVar[dict[str, Register]] = {
        "NVIC_ISER0": Register(0x100),
        "NVIC_ICER0": Register(0x180),
        "NVIC_ICPR0": Register(0x280),
        "NVIC_ICPR1": Register(0x284),
        "NVIC_ICPR2": Register(0x288),
        "SCB_VTOR": Register(0xD08),
        "SCB_AIRCR": Register(0xD0C, reset=0xFA050000),
        "SCB_CFSR": Register(0xD28),
        "SCB_CPACR": Register(0xD88),
    }

    FUNCTIONS = "nvic"
    state: NvicState
    NATIVE = frozenset({"NVIC_ISER0", "NVIC_ICER0"})

    def __init__(self, on_reset: Callable[[], None]) -> None:
        self.state = NvicState()
        super().__init__("SCS", 0xE000E000)
        self._on_reset = on_reset

    def power_on(self) -> None:
        super().power_on()
        self.state.enabled = 0

    def write_scb_aircr(self, value: int) -> None:
        if value & 0xFFFF0004 != SYSRESETREQ:
            raise EmulationError(f"write of 0x{value:08X} to AIRCR: only a system reset is modelled")
        self._on_reset()
