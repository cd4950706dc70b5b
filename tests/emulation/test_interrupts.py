# SPDX-License-Identifier: Apache-2.0
"""Interrupts between any two instructions: the handler starts with a clean state, and the program never notices."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from poet_harness.emulation.bus import Bus
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine, Memory

RAM = 0x20000000

# Behind the vectors a program that stores 5 if what it computes is right, whether an IT block's condition holds or not.
# The block lies across 0x400, where the engine begins a new translation and can be interrupted in its middle.
PROGRAM = f"""
.syntax unified
.thumb
.cpu cortex-m4
.word {RAM + 0x1000}, start + 1
.space 56
.word handler + 1
.global start
start:
    ldr r5, =0x{RAM:x}
    movs r0, #1
    cmp r0, #CONDITION
    b block
handler:
    ldr r3, =0x{RAM:x}
    ldr r2, [r3]
    adds r2, r2, #1
    str r2, [r3]
    bx lr
.ltorg
.org 0x3fc
block:
    itt eq
    addeq r0, r0, #2
    addeq r0, r0, #2
    str r0, [r5, #4]
    wfi
    b .
"""


class OneInterrupt:
    """A chip that raises its first interrupt at a given cycle, once, and wakes the CPU from its sleep later."""

    def __init__(self, when: int) -> None:
        self.bus = Bus(())
        self.when = when
        self.machine: Machine | None = None

    def next_interrupt(self) -> tuple[int, int] | None:
        assert self.machine is not None
        taken = int.from_bytes(self.machine.read_memory(RAM, 4), "little")
        return (self.machine.clock.now + 1000, 0) if taken else (self.when, 0)

    def reset(self, _cause: str) -> None:
        assert self.machine is not None
        self.machine.write_memory(RAM, bytes(8))


@pytest.mark.parametrize(("condition", "result"), [(1, 5), (0, 1)])
def test_an_interrupt_anywhere_changes_nothing(condition: int, result: int, tmp_path: Path) -> None:
    source, elf = tmp_path / "program.s", tmp_path / "program.elf"
    source.write_text(PROGRAM.replace("CONDITION", str(condition)))
    command = ["arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0", "-Wl,--no-warn-rwx-segments", "-Wl,-e,start"]
    subprocess.run([*command, str(source), "-o", str(elf)], check=True)
    for when in range(20):
        machine = Machine("cortex-m4f", Memory(0, 0, 0x10000, RAM, 0x2000), load_image(elf), 1_000_000)
        chip = OneInterrupt(when)
        chip.machine = machine
        machine.connect(chip, lambda begin, end, machine=machine: machine.pause())
        machine.run(10_000)
        assert machine.read_memory(RAM, 8) == bytes([1, 0, 0, 0, result, 0, 0, 0]), when
