# SPDX-License-Identifier: Apache-2.0
"""A program of a few instructions, run on a bare core until it sleeps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from poet_harness.emulation.bus import Bus, EmulationError
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine, Memory
from poet_harness.emulation.machine_state import Interrupt, NvicState

from tests.support.emulation.python_machine import PythonMachine

MACHINES = (Machine, PythonMachine)
FLASH_BYTES = 0x10000
RAM_BEGIN, RAM_BYTES = 0x20000000, 0x2000


class Bare:
    """A chip without peripherals: nothing wakes the CPU."""

    interrupts: tuple[Interrupt, ...] = ()

    def __init__(self) -> None:
        self.bus = Bus(())
        self.nvic = NvicState(enabled=1)
        self.resets = 0

    def attend(self) -> None:
        """No card."""

    def reset(self, _cause: str) -> None:
        self.resets += 1


def link(core: str, text: str, folder: Path) -> Path:
    """A program, its instructions divided by semicolons, from address 8 on; it ends in wfi."""
    source, elf = folder / "program.s", folder / "program.elf"
    head = [".syntax unified", ".thumb", f".cpu {core.removesuffix('f')}", ".word 0x20001000, start + 1", "start:"]
    source.write_text("\n".join([*head, *(part.strip() for part in text.split(";")), "wfi", "b .", ""]))
    command = ["arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0", "-Wl,--no-warn-rwx-segments", "-Wl,-e,start"]
    subprocess.run([*command, str(source), "-o", str(elf)], check=True)
    return elf


def run_until_it_sleeps(core: str, elf: Path, machine_of: type[Machine], flash_wait: int = 0) -> int:
    """Cycles of a program that `link` made."""
    memory = Memory(0, 0, FLASH_BYTES, RAM_BEGIN, RAM_BYTES, flash_wait)
    machine, chip = machine_of(core, memory, load_image(elf), 1_000_000), Bare()
    machine.connect(chip, lambda begin, end: None)
    with pytest.raises(EmulationError, match="no interrupt that is enabled could ever wake it"):
        machine.run(10_000_000)
    assert chip.resets == 1
    return machine.clock.now
