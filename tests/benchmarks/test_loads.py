# SPDX-License-Identifier: Apache-2.0
"""Reads of flash on an emulated core: every form of load, against Unicorn's own hook where that is sound."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("unicorn", reason="the emulator is not installed")
from unicorn import arm_const, unicorn_const

from benchmarks.firmware.emulated_core import FIRMWARE, MEMORY, EmulatedCore

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")

COMMON = """
    ldr r1, =table
    ldr r2, [r1]
    ldrb r2, [r1, #3]
    ldrh r2, [r1, #6]
    movs r3, #8
    ldr r2, [r1, r3]
    ldrsb r2, [r1, r3]
    ldrsh r2, [r1, r3]
    ldm r1!, {r2, r3, r4}
    push {r2}
    ldr r2, [sp]
    pop {r2}
"""
WIDE = """
    ldr r2, [r1, #4]!
    ldr r2, [r1], #8
    ldrb r2, [r1, #-1]
    movs r3, #2
    ldr r2, [r1, r3, lsl #2]
    ldrd r2, r4, [r1, #8]
    ldmdb r1, {r2, r4}
    vldr s0, [r1, #4]
    vldr d1, [r1, #8]
    vldmia r1!, {s4-s6}
    vldmdb r1!, {d4-d5}
    adr r4, near
    ldr r2, near
    movs r3, #1
    tbb [pc, r3]
near:
    .byte 2, 2
    .hword 0
    tbh [pc, r3, lsl #1]
    .hword 2, 2
"""
SOURCE = """
__attribute__((used, aligned(8))) static const unsigned table[32] = {1, 2, 3};
__attribute__((naked)) int load(void) { __asm__ volatile("push {r4, lr}\\n%s\\nmovs r0, #7\\npop {r4, pc}\\n.ltorg"); }
"""
CONDITIONAL = """
    ldr r1, =table
    movs r2, #0
    movs r3, #5
    cmp r2, #0
    itete eq
    ldreq r0, [r1, #4]
    ldrne r0, [r1]
    addeq r0, r0, r3
    ldrbne r3, [r1, #8]
    cmp r0, r3
    ittt gt
    ldrgt r4, [r1, r2]
    ldrhgt r3, [r1, #8]
    addgt r0, r0, r4
    add r0, r0, r3
"""
RESIDENTS = """
#include "poet/saved.h"
static const poet_resident residents[] = {{0, 40, 1}, {40, 8, 2}, {48, 600, 1}, {648, 24, 3}, {672, 48, 4}};
static const poet_model model = {.resident_count = 5, .residents = residents};
unsigned saved(void) { return poet_saved_bytes(&model); }
"""


REGISTERS = [*range(arm_const.UC_ARM_REG_R0, arm_const.UC_ARM_REG_R12 + 1), arm_const.UC_ARM_REG_XPSR]


def state(core: EmulatedCore) -> tuple[list[int], bytes]:
    """Registers, and all of the RAM."""
    engine, memory = core.machine._engine, core.machine._memory
    return [engine.reg_read(one) for one in REGISTERS], core.machine.read_memory(memory.ram_begin, memory.ram_bytes)


def made(core: str, folder: Path, text: str, name: str, more: Iterable[Path] = ()) -> EmulatedCore:
    source = folder / "source.c"
    source.write_text(text)
    return EmulatedCore(core, [source, *more], [name], folder / "build")


def by_words(reads: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Doubles as two words."""
    return [(place + part, min(width, 4)) for place, width in reads for part in range(0, width, 4)]


@pytest.mark.parametrize(("core", "body"), [("cortex-m4f", COMMON + WIDE), ("cortex-m0plus", COMMON)])
def test_reads_are_those_that_unicorn_sees(core: str, body: str, tmp_path: Path) -> None:
    text = SOURCE % body.replace("\n", "\\n")
    ours: list[tuple[int, int]] = []
    theirs: list[tuple[int, int]] = []
    one, other = (made(core, tmp_path, text, "load") for _ in range(2))
    with one.watched_reads(lambda place, width: ours.append((place, width))):
        found = one.call("load")
    other.machine._engine.ctl_flush_tb()
    other.machine._engine.hook_add(
        unicorn_const.UC_HOOK_MEM_READ,
        lambda _, __, place, width, ___, ____: theirs.append((place, width)),
        begin=MEMORY.flash_begin,
        end=MEMORY.flash_begin + MEMORY.flash_bytes - 1,
    )
    assert other.call("load") == found
    assert found[0] == 7
    assert ours == by_words(theirs)
    assert len(ours) > body.count("ld")


@pytest.mark.parametrize("runs_first", [False, True])
def test_loads_in_it_blocks_are_made_and_seen_where_their_condition_holds(runs_first: bool, tmp_path: Path) -> None:
    """The table holds 1, 2, 3; of two loads under contrary conditions one is made."""
    core = made("cortex-m4f", tmp_path, (SOURCE % CONDITIONAL.replace("\n", "\\n")).replace("movs r0, #7", ""), "load")
    seen: list[tuple[int, int]] = []
    if runs_first:
        core.call("load")
    with core.watched_reads(lambda place, width: seen.append((place - core.address("table"), width))):
        assert core.call("load")[0] == (2 + 5) + 1 + 3
    assert [read for read in seen if read[0] in range(128)] == [(4, 4), (0, 4), (8, 2)]
    assert core.call("load")[0] == (2 + 5) + 1 + 3


def test_a_program_with_conditional_loads_computes_what_it_does_unwatched(tmp_path: Path) -> None:
    more = [FIRMWARE / "src" / "runtime" / "model.c"]
    plain, watched = (made("cortex-m4f", tmp_path, RESIDENTS, "saved", more) for _ in range(2))
    seen: list[int] = []
    for _ in range(2):
        assert watched.call("saved") == plain.call("saved")
        seen.clear()
        with watched.watched_reads(lambda place, width: seen.append(width)):
            assert watched.call("saved") == plain.call("saved")
        assert state(watched) == state(plain)
        assert seen.count(1) == 5  # each resident's kind
    assert plain.call("saved")[0] == 40 + 600 + 24
