# SPDX-License-Identifier: Apache-2.0
"""The cycle table against the numbers that the cores' manuals print, on instructions as the assembler writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from poet_harness.emulation.cycles import CORES, prefix_sums
from poet_harness.emulation.image import load_image
from poet_harness.emulation.machine import Machine
from poet_profiles.errors import UserError

from tests.support.emulation.bare_program import MACHINES, link, run_until_it_sleeps

# Instructions, and their cycles without a pipeline refill: table 3-1 and table 7-1 of the Cortex-M4 manual.
CORTEX_M4 = [
    ("adds r0, r1, r2", 1),
    ("mul r0, r1, r2", 1),
    ("mla r0, r1, r2, r3", 1),
    ("umull r0, r1, r2, r3", 1),
    ("ldr r0, [r1]", 2),
    ("ldr r0, [r1]; ldr r2, [r3]", 3),  # neighbouring loads overlap
    ("ldr r0, [r1]; ldr r2, [r0]", 4),  # but not when one fetches the other's address
    ("ldr r0, [r1, r2]; str r0, [r3, #20]", 3),
    ("adds r1, r2, r3; ldr r0, [r1]", 4),  # an address just computed is waited for
    ("adds r1, r2, r3; ldr r0, [r4]", 3),
    ("str r0, [r1, #4]", 1),
    ("str r0, [r1, r2]", 2),
    ("push {r4, r5, r6, lr}", 5),
    ("pop {r4, r5, r6, pc}", 5),
    ("ldmia r0!, {r1, r2, r3}", 4),
    ("ldrd r0, r1, [r2]", 3),
    ("udiv r0, r1, r2", 7),
    ("vmul.f32 s0, s1, s2", 1),
    ("vadd.f32 s0, s1, s2", 1),
    ("vmul.f32 s0, s1, s2; vadd.f32 s3, s3, s0", 3),  # a result that is used at once is waited for
    ("vmul.f32 s0, s1, s2; vadd.f32 s3, s3, s4", 2),
    ("vmla.f32 s0, s1, s2", 3),
    ("vdiv.f32 s0, s1, s2", 14),
    ("vsqrt.f32 s0, s1", 14),
    ("vldr s0, [r0]", 2),
    ("vldm r0!, {s0, s1, s2, s3}", 5),
    ("vldmia r0!, {s0-s3}", 5),
    ("vstr s0, [r0]", 2),
    ("vmov s0, r0", 1),
    ("it eq; vaddeq.f32 s0, s1, s2", 2),
]

# Table 3-1 of the Cortex-M0+ manual, with the single-cycle multiplier.
CORTEX_M0PLUS = [
    *(("adds r0, r1, r2", 1), ("muls r0, r1, r0", 1), ("ldr r0, [r1]", 2), ("ldr r0, [r1]; ldr r2, [r3]", 4)),
    *(("str r0, [r1]", 2), ("push {r4, r5, lr}", 4), ("ldmia r0!, {r1, r2, r3}", 4), ("stmia r0!, {r1, r2, r3}", 4)),
]


def assemble(text: str, cpu: str, folder: Path) -> bytes:
    source, thing, binary = folder / "a.s", folder / "a.o", folder / "a.bin"
    lines = [".syntax unified", ".thumb", f".cpu {cpu}", *([".fpu fpv4-sp-d16"] if cpu == "cortex-m4" else [])]
    source.write_text("\n".join([*lines, *(part.strip() for part in text.split(";")), ""]))
    subprocess.run(["arm-none-eabi-as", str(source), "-o", str(thing)], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", str(thing), str(binary)], check=True)
    return binary.read_bytes()


@pytest.mark.parametrize(
    ("core", "cpu", "table"),
    [("cortex-m4f", "cortex-m4", CORTEX_M4), ("cortex-m0plus", "cortex-m0plus", CORTEX_M0PLUS)],
)
def test_the_table_is_the_manuals(core: str, cpu: str, table: list[tuple[str, int]], tmp_path: Path) -> None:
    for text, cycles in table:
        code = assemble(text, cpu, tmp_path)
        sums = prefix_sums(CORES[core], [(0, code)], 0, len(code))
        assert sums[-1] - sums[0] == cycles, text


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("core", ["cortex-m4f", "cortex-m0plus"])
def test_a_branch_costs_its_refill_only_when_it_is_taken(core: str, machine: type[Machine], tmp_path: Path) -> None:
    refill = CORES[core].refill

    def cycles(text: str) -> int:
        return run_until_it_sleeps(core, link(core, text, tmp_path), machine)

    straight = cycles("movs r0, #7; nop; nop")
    assert straight == 3 + 1  # and the wfi
    loop = cycles("movs r0, #100; 1: subs r0, #1; bne 1b")
    assert loop == 1 + 100 * (1 + 1) + 99 * refill + 1
    call = cycles("bl 2f; b 3f; 2: bx lr; 3: nop")
    bl = 1 if core == "cortex-m4f" else 2  # three cycles in all on the M0+
    assert call == bl + 1 + 1 + 1 + 3 * refill + 1


def test_data_between_the_code_is_not_taken_for_code(images: dict[str, Path]) -> None:
    image = load_image(images["mkr1000"])
    code = sum(len(data) for _, data in image.code)
    loaded = sum(len(data) for _, data in image.segments)
    assert 0.3 * loaded < code < loaded
    assert all(address % 2 == 0 and data for address, data in image.code)


def test_an_image_for_another_machine_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "host"
    subprocess.run(["gcc", "-x", "c", "-", "-o", str(program)], input=b"int main(void){return 0;}", check=True)
    with pytest.raises(UserError, match="not for an Arm microcontroller"):
        load_image(program)
