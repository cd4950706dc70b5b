# SPDX-License-Identifier: Apache-2.0
"""Sizes by part: of a map that the linker writes, beside what the image's own section table says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from poet_profiles.errors import UserError
from poet_profiles.firmware.compiled_operators import sizes
from poet_profiles.firmware.operators import OPERATORS, way_of

pytest.importorskip("unicorn", reason="the emulator is not installed")
from poet_harness.profiling.grid import TRANSFERS

from benchmarks.firmware.size_report import configurations, copied, sizes_by_part

SOURCES = {
    "src/ops/sum.c": "static const int table[5] = {1}; int sum(int i) { return table[i]; } int unused(int i) "
    "{ return table[i + 1]; }",
    "src/runtime/state.c": "int counter = 7; char kept[96]; int next(void) { kept[3]++; return counter++; }",
    "boards/pins.c": "char a_rather_long_name_that_the_linker_folds[48]; void blink(void) "
    "{ a_rather_long_name_that_the_linker_folds[1]++; }",
    "main.c": "extern int sum(int); extern int next(void); extern void blink(void); "
    "int main(void) { blink(); return sum(next()); }",
}
SCRIPT = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 64K  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 8K }
SECTIONS {
  .text : { *(.text*) *(.rodata*) } > FLASH
  .data : { *(.data*) } > RAM AT > FLASH
  .bss (NOLOAD) : { *(.bss*) *(COMMON) } > RAM
  .stack (NOLOAD) : { . += 0x200; } > RAM
}
"""


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")
def test_parts_are_what_the_image_holds(tmp_path: Path) -> None:
    (tmp_path / "link.ld").write_text(SCRIPT)
    flags = ["-mcpu=cortex-m0plus", "-mthumb", "-O1", "-ffunction-sections", "-fdata-sections", "-g"]
    objects = []
    for name, text in SOURCES.items():
        source = tmp_path / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        objects.append(str(source.with_suffix(".o")))
        subprocess.run(["arm-none-eabi-gcc", *flags, "-c", str(source), "-o", objects[-1]], check=True)
    image, linker_map = tmp_path / "a.elf", tmp_path / "a.map"
    link = ["-nostdlib", "-Wl,--gc-sections", "-Wl,--entry=main", f"-T{tmp_path / 'link.ld'}", f"-Wl,-Map={linker_map}"]
    subprocess.run(["arm-none-eabi-gcc", *flags, *objects, "-o", str(image), *link], check=True)
    parts = sizes_by_part(linker_map.read_text())
    assert {part: ram for part, (_, ram) in parts.items() if ram} == {"boards": 48, "runtime": 4 + 96, "stack": 0x200}
    listing = subprocess.run(["arm-none-eabi-size", str(image)], capture_output=True, text=True, check=True).stdout
    text, data, bss = (int(column) for column in listing.splitlines()[1].split()[:3])
    assert sum(ram for _, ram in parts.values()) == data + bss
    assert sum(flash for flash, _ in parts.values()) == pytest.approx(text + data, abs=4 * len(SOURCES))  # gaps
    assert all(parts[part][0] > 0 for part in ("ops", "runtime", "boards", "main"))
    assert 20 < parts["ops"][0] < 60  # the table, and of two functions the one that is called


def test_every_operator_is_run_in_a_shape_that_it_takes() -> None:
    for name, operator in OPERATORS.items():
        for values in () if name in TRANSFERS else configurations(name, operator.params):
            found = sizes(operator.code, values)
            assert all(found.input_bytes[: found.inputs]) and all(found.output_bytes[: found.outputs]), name
    shapes = [
        dict(zip(OPERATORS["conv2d"].params, v, strict=True))
        for v in configurations("conv2d", OPERATORS["conv2d"].params)
    ]
    assert [way_of(p) for p in shapes] == ["direct", "winograd"]


def test_a_card_that_is_none_is_refused_and_another_is_copied(tmp_path: Path) -> None:
    card = tmp_path / "card.img"
    card.write_bytes(b"card")
    folder = tmp_path / "copies"
    folder.mkdir()
    copy = copied(card, None, folder)
    assert copy is not None and copy != card and copy.read_bytes() == b"card"
    assert copied(None, None, folder) is None
    with pytest.raises(UserError):
        copied(card, tmp_path / "no plan", folder)
