# SPDX-License-Identifier: Apache-2.0
"""The compiler's own floating point in software on the Cortex-M0+ without wait states, against published cycles.

Published: the Qfplib page's figures for an older libgcc, arguments drawn from a normal distribution. libgcc has changed
since, so the limits are wide; they catch a wrong cost of branches, shifts or the multiplier.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.firmware.emulated_core import EmulatedCore
from benchmarks.truth.figure import Figure

HERE = Path(__file__).resolve().parent
PUBLISHED = {"add": 102, "sub": 108, "mul": 166, "div": 475}
LEAST, MOST = 0.85, 1.05
CALL_AND_RETURN = 5
PAIRS = 1000


def figures(build: Path) -> list[Figure]:
    """Mean cycles of each operation, call and return included."""
    core = EmulatedCore("cortex-m0plus", [HERE / "soft_float.c"], ["apply"], build, flash_wait=0)
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, PAIRS)).astype(np.float32)
    places = core.place(a), core.place(b), core.place(4 * PAIRS)
    expected = (a, a + b, a - b, a * b, a / b)
    cycles = []
    for which, result in enumerate(expected):
        _, taken = core.call("apply", which, *places, PAIRS)
        computed = core.machine.read_memory(places[2], 4 * PAIRS)
        assert computed == result.tobytes(), "the operation computes something else"
        cycles.append(taken / PAIRS)
    return [
        Figure(f"libgcc, float {name}, M0+", published, taken - cycles[0] + CALL_AND_RETURN, LEAST, MOST)
        for (name, published), taken in zip(PUBLISHED.items(), cycles[1:], strict=True)
    ]
