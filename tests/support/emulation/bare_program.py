# SPDX-License-Identifier: Apache-2.0
"""A program of a few instructions, run on a bare core until it sleeps."""

from __future__ import annotations

import subprocess
from pathlib import Path

from poet_harness.emulation.bus import Bus
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine, Memory

FLASH_BYTES = 0x10000
RAM_BEGIN, RAM_BYTES = 0x20000000, 0x2000


class Bare:
    """A chip without peripherals; an interrupt wakes the CPU a thousand cycles later."""

    def __init__(self) -> None:
        self.bus = Bus(())
        self.machine: Machine | None = None
        self.resets = 0

    def next_interrupt(self) -> tuple[int, int] | None:
        assert self.machine is not None
        return self.machine.clock.now + 1000, 0

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


def run_until_it_sleeps(core: str, elf: Path, native: bool, flash_wait: int = 0) -> int:
    """Cycles of a program that `link` made."""
    memory = Memory(0, 0, FLASH_BYTES, RAM_BEGIN, RAM_BYTES, flash_wait)
    machine = Machine(core, memory, load_image(elf), 1_000_000, native=native)
    chip, slept = Bare(), []
    chip.machine = machine

    def sleeps(begin: int, _end: int) -> None:
        slept.append(begin)
        machine.pause()

    machine.connect(chip, sleeps)
    machine.run(10_000_000)
    assert chip.resets == 1
    return slept[0]
