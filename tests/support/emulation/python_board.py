# SPDX-License-Identifier: Apache-2.0
"""A board emulated in Python alone, some thirty times slower: the oracle of the emulator's C."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from poet_harness.emulation import EmulatedBoard, open_emulated_board

from tests.support.emulation import python_peripherals as peripherals
from tests.support.emulation.python_card import PythonCard, PythonSpiBus
from tests.support.emulation.python_machine import PythonMachine

IN_PLACE_OF = {
    "emulated_board.Machine": PythonMachine,
    "emulated_board.SdCard": PythonCard,
    "chip.SystemControlSpace": peripherals.PythonSystemControlSpace,
    "nrf52840.NordicSpi": peripherals.PythonNordicSpi,
    "nrf52840.NordicTimer": peripherals.PythonNordicTimer,
    "nrf52840.NordicUart": peripherals.PythonNordicUart,
    "samd21.SamSpi": peripherals.PythonSamSpi,
    "samd21.SamTimer": peripherals.PythonSamTimer,
    "samd21.SamUart": peripherals.PythonSamUart,
    "samd21.SpiBus": PythonSpiBus,
    "stm32f411.StmSpi": peripherals.PythonStmSpi,
    "stm32f411.StmTimer": peripherals.PythonStmTimer,
    "stm32f411.StmUart": peripherals.PythonStmUart,
    "peripherals.spi.SpiBus": PythonSpiBus,
}


def open_python_board(*arguments: Any, **options: Any) -> EmulatedBoard:
    """Like `open_emulated_board`."""
    with ExitStack() as stack:
        for name, python in IN_PLACE_OF.items():
            stack.enter_context(patch(f"poet_harness.emulation.{name}", python))
        return open_emulated_board(*arguments, **options)
