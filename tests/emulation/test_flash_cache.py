# SPDX-License-Identifier: Apache-2.0
"""The flash of the SAMD21: one wait state for each line of 8 bytes that its cache of eight does not hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine
from poet_harness.emulation.samd21 import MEMORY
from unicorn import arm_const, unicorn_const
from unicorn.unicorn_py3.unicorn import Uc

from tests.support.emulation.bare_program import FLASH_BYTES, MACHINES, RAM_BEGIN, RAM_BYTES, link, run_until_it_sleeps

CORE = "cortex-m0plus"
EIGHT = "movs r0, #1; lsls r1, r0, #3; lsrs r2, r1, #1; adds r1, r1, r2; muls r1, r0, r1; adds r2, #1; lsrs r2, r1, #2"


def accesses(elf: Path) -> list[int]:
    """Lines of flash that a program fetches, block by block, and reads, as the engine says: 16 bytes, 2 lines."""
    image, lines = load_image(elf), []
    engine = Uc(unicorn_const.UC_ARCH_ARM, unicorn_const.UC_MODE_THUMB)
    engine.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M0)
    engine.mem_map(0, FLASH_BYTES)
    engine.mem_map(RAM_BEGIN, RAM_BYTES)
    for address, data in image.segments:
        engine.mem_write(address, data)
    engine.reg_write(arm_const.UC_ARM_REG_SP, 0x20001000)
    engine.hook_add(
        unicorn_const.UC_HOOK_BLOCK,
        lambda _engine, address, size, _data: lines.extend(sorted({at // 8 for at in range(address, address + size)})),
    )
    engine.hook_add(
        unicorn_const.UC_HOOK_MEM_READ,
        lambda _engine, _type, address, _size, _value, _data: lines.append(address // 8),
        begin=0,
        end=FLASH_BYTES - 1,
    )
    engine.emu_start(8 | 1, FLASH_BYTES)
    return lines


def misses(lines: list[int]) -> int:
    """An access misses unless the last one to its place, of eight, was to the same line."""
    return sum(
        line != next((past for past in reversed(lines[:index]) if (past - line) % 8 == 0), None)
        for index, line in enumerate(lines)
    )


def program(seed: int) -> str:
    """Loops, one in the other, over calls, literals, a table in flash, and straight code of random lengths."""
    chance = random.Random(seed)
    some = lambda: "; ".join(["adds r1, #1"] * chance.randrange(1, 30))  # noqa: E731
    parts = [f"ldr r7, =table; movs r6, #{chance.randrange(1, 6)}; outer: movs r5, #{chance.randrange(1, 6)}; {some()}"]
    for index in range(chance.randrange(1, 4)):
        parts.append(f"inner{index}: {some()}; ldr r2, =0x{chance.getrandbits(32):x}; ldrb r3, [r7, r5]; {some()}")
        parts.append(f"bl function; subs r5, #1; bne inner{index}; movs r5, #{chance.randrange(1, 40)}; nop")
    parts.append(
        f"subs r6, #1; beq 1f; b outer; 1: b end; function: {some()}; ldrh r4, [r7, #{2 * chance.randrange(8)}]"
    )
    words = ", ".join(str(chance.getrandbits(32)) for _ in range(16))
    parts.append(f"bx lr; .pool; .align 2; table: .word {words}; end: nop")
    return "; ".join(parts)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_data_sheets_example(machine: type[Machine], tmp_path: Path) -> None:
    """Eight instructions of one cycle, 16 bytes: two lines, and none of them is there. The eighth is the wfi."""
    elf = link(CORE, EIGHT, tmp_path)
    assert run_until_it_sleeps(CORE, elf, machine, flash_wait=MEMORY.flash_wait) == 10
    assert run_until_it_sleeps(CORE, elf, machine) == 8


@pytest.mark.parametrize("machine", MACHINES)
def test_a_loop_that_fits_the_cache_waits_once(machine: type[Machine], tmp_path: Path) -> None:
    def waits(body: int) -> int:
        elf = link(
            CORE, f"movs r0, #100; b 1f; .align 3; 1: {'nop; ' * body}subs r0, #1; bne 1b; .align 3; nop", tmp_path
        )
        return run_until_it_sleeps(CORE, elf, machine, flash_wait=1) - run_until_it_sleeps(CORE, elf, machine)

    assert waits(30) == 1 + 8 + 1  # 64 bytes, and a line before and after them
    assert waits(31) == 1 + 8 + 1 + 2 * 99 + 1  # one more line collides with the first, in every round


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(6))
def test_programs_wait_for_every_line_that_is_not_there(machine: type[Machine], seed: int, tmp_path: Path) -> None:
    elf = link(CORE, program(seed), tmp_path)
    lines = accesses(elf)
    assert len(lines) > 50
    assert 5 < misses(lines) < len(lines)
    for wait in (1, 3):
        with_wait = run_until_it_sleeps(CORE, elf, machine, flash_wait=wait)
        assert with_wait - run_until_it_sleeps(CORE, elf, machine) == wait * misses(lines)
