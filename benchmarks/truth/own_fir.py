# SPDX-License-Identifier: Apache-2.0
"""A plain filter of 256 taps on both cores, against a Teensy 3.6's and an Arduino M0 Pro's (SAM D21) cycles a sample.

Published: the OpenAudio blog's comparison of microcontrollers. Its compilers are older than ours, which is worth some
10 %; only the float filter is judged, on the SAM D21 by the tighter limit, for it is what its flash was modelled by.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.firmware.emulated_core import EmulatedCore
from benchmarks.truth.figure import Figure

HERE = Path(__file__).resolve().parent
TAPS, NEWEST = 256, 100
TYPES: dict[str, npt.DTypeLike] = {"int16": np.int16, "int32": np.int32, "float": np.float32}
PUBLISHED = {
    "cortex-m4f": {"int16": 3341, "int32": 3078, "float": 4104},
    "cortex-m0plus": {"int16": 6449, "int32": 7731, "float": 85617},
}
NAMES = {"cortex-m4f": "M4F", "cortex-m0plus": "SAM D21"}
# As the two boards' programs were built. Whether the M4F's was built with fused multiply-adds is not known; it matters
# less than a tenth.
OPTIONS = {"cortex-m4f": ["-O2"], "cortex-m0plus": ["-Os"]}
LIMITS = {"cortex-m4f": (0.90, 1.10), "cortex-m0plus": (0.92, 1.08)}


def figures(build: Path) -> list[Figure]:
    """Cycles a sample by type and core."""
    found = []
    for name, published in PUBLISHED.items():
        core = EmulatedCore(name, [HERE / "own_fir.c"], [f"fir_{kind}" for kind in TYPES], build, options=OPTIONS[name])
        for kind, cycles in published.items():
            limits = LIMITS[name] if kind == "float" else (None, None)
            what = f"plain filter, {TAPS} taps, {kind}, per sample, {NAMES[name]}"
            found.append(Figure(what, cycles, _cycles(core, kind), *limits))
    return found


def _cycles(core: EmulatedCore, kind: str) -> float:
    core.free()
    random = np.random.default_rng(0)
    taps, ring = (10 * random.standard_normal((2, TAPS))).astype(TYPES[kind])
    total = core.place(4)
    _, cycles = core.call(f"fir_{kind}", core.place(taps), core.place(ring), TAPS, NEWEST, total)
    computed = np.frombuffer(core.machine.read_memory(total, 4), TYPES[kind])[0]
    expected = np.dot(taps.astype(float), ring.astype(float)[(NEWEST - np.arange(TAPS)) % TAPS])
    assert abs(computed - expected) <= 1e-4 * np.abs(expected), "the filter computes something else"
    return cycles
