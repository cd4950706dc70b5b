# SPDX-License-Identifier: Apache-2.0
"""What LLVM thinks of the dense kernels' hottest blocks, beside the cycle table. A report; it judges nothing.

    .venv/bin/python -m benchmarks.truth.second_opinion

`llvm-mca -mcpu=cortex-m4` (Debian's `llvm`) is a timing model of this core that nobody here wrote. It is static and
knows the core by LLVM's scheduling table, which hides every load behind what follows; the manual hides only a load
behind a load. Both counts leave out the branch at the end of the block.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from poet_profiles.operators import OPERATORS
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import FIRMWARE, EmulatedCore
from benchmarks.firmware.kernels import Case, Layer, convolutions, linear, matmul

CORE = "cortex-m4f"
LAYER = Layer(16, 16, 16, 16, 3)
DEPTHWISE = Layer(16, 16, 16, 16, 3, groups=16)
ROUNDS = 100
TARGET = ["-mtriple=thumbv7em-none-eabihf", "-mcpu=cortex-m4", f"-iterations={ROUNDS}"]


def cases() -> Iterator[Case]:
    yield from convolutions([LAYER, DEPTHWISE])
    yield linear(32, 32, 32, "32 x 32 x 32", 0.0)
    yield matmul(32, 32, 32, 0, "32 x 32 x 32", 0.0)


def hottest_block(core: EmulatedCore, case: Case) -> tuple[int, int]:
    """Address and bytes of the block in which the operator spends most of its cycles."""
    runs: Counter[tuple[int, int]] = Counter()
    with core.watched(lambda address, size: runs.update([(address, size)])):
        sizes = OPERATORS[case.op].sizes(case.params)
        core.free()
        inputs, outputs = ([core.place(bytes(size)) for size in group] for group in (sizes.inputs, sizes.outputs))
        params = core.words([case.params[name] for name in OPERATORS[case.op].params])
        arguments = [params, core.words(inputs), core.words(outputs), core.place(sizes.workspace), 0, 0]
        core.call(f"poet_{case.op}_run", core.words(arguments))
    return max(runs, key=lambda block: runs[block] * core.cycles(*block))


def llvm_cycles(assembly: str) -> float:
    """Of one round of a block that runs over and over."""
    done = subprocess.run(["llvm-mca", *TARGET], input=assembly, capture_output=True, text=True, check=False)
    found = re.search(r"^Total Cycles:\s+(\d+)", done.stdout, re.MULTILINE)
    if found is None:
        sys.exit(f"second_opinion: llvm-mca: {done.stderr.strip()}")
    return int(found[1]) / ROUNDS


def main() -> int:
    if shutil.which("llvm-mca") is None:
        sys.exit("second_opinion: llvm-mca is not installed (Debian's package llvm)")
    table = Table("operator", "shape", "block", "table", "llvm-mca", "ratio", title="hottest block, cycles a round")
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted((FIRMWARE / "src" / "ops").glob("*.c"))
        core = EmulatedCore(CORE, sources, ["poet_operators"], Path(folder))
        for case in cases():
            address, size = hottest_block(core, case)
            assembly, bytes_without_branch = core.straight(address, size)
            own, theirs = core.cycles(address, bytes_without_branch), llvm_cycles(assembly)
            cells = (f"{own}", f"{theirs:.0f}", f"{own / theirs:.2f}")
            table.add_row(case.op, case.label, f"{assembly.count(chr(10))} instructions", *cells)
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
