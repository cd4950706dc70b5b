# SPDX-License-Identifier: Apache-2.0
"""Interrupts between any two instructions: the handler starts with a clean state, and the program never notices."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from poet_harness.emulation.bus import EmulationError
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine, Memory
from poet_harness.emulation.machine_state import PENDING_AT, Interrupt

from tests.support.emulation.bare_program import MACHINES, Bare

RAM = 0x20000000

# After the vectors a program that stores 5 if what it computes is right, whether an IT block's condition holds or not.
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


class OneInterrupt(Bare):
    """A chip that raises an interrupt at a given cycle, once."""

    def __init__(self, when: int, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

        def pending_at(_peripheral: int, _now: int, at: Any) -> bool:
            at[0] = when
            return not any(machine.read_memory(RAM, 4))

        self.interrupts = (Interrupt(None, PENDING_AT(pending_at), 0),)

    def reset(self, _cause: str) -> None:
        self.machine.write_memory(RAM, bytes(8))


@pytest.mark.parametrize("machine_of", MACHINES)
@pytest.mark.parametrize(("condition", "result"), [(1, 5), (0, 1)])
def test_an_interrupt_anywhere_changes_nothing(
    machine_of: type[Machine], condition: int, result: int, tmp_path: Path
) -> None:
    source, elf = tmp_path / "program.s", tmp_path / "program.elf"
    source.write_text(PROGRAM.replace("CONDITION", str(condition)))
    command = ["arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0", "-Wl,--no-warn-rwx-segments", "-Wl,-e,start"]
    subprocess.run([*command, str(source), "-o", str(elf)], check=True)
    for when in range(20):
        machine = machine_of("cortex-m4f", Memory(0, 0, 0x10000, RAM, 0x2000), load_image(elf), 1_000_000)
        machine.connect(OneInterrupt(when, machine), lambda begin, end: None)
        with suppress(EmulationError):  # nothing wakes it any more
            machine.run(10_000)
        assert machine.read_memory(RAM, 8) == bytes([1, 0, 0, 0, result, 0, 0, 0]), when
