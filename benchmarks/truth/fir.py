# SPDX-License-Identifier: Apache-2.0
"""CMSIS-DSP's arm_fir_f32 on the Cortex-M4F, against a Teensy 3.6's cycles a sample.

Published: the OpenAudio blog's spreadsheet on FIR filters, for as many samples a block as there are taps. The library
there was built with fused multiply-adds: with separate ones it would take a quarter less than was measured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.firmware.emulated_core import EmulatedCore
from benchmarks.truth.figure import Figure

PUBLISHED = {16: 79.2, 32: 129.6, 64: 237.6, 128: 455.4, 256: 894.6}
LEAST, MOST = 0.93, 1.05
# Cycles a tap, what is left when the cost of a sample is taken off: multiply-adds, loads and loop alone.
SLOPE_TAPS = (16, 256)
LEAST_SLOPE, MOST_SLOPE = 3.35, 3.52


def figures(build: Path, cmsis: Path) -> list[Figure]:
    """Cycles a sample for each number of taps, and the slope between the smallest and the largest.

    Parameters
    ----------
    cmsis : Path
        Folder with CMSIS-DSP's ``Source``, ``Include`` and ``PrivateInclude``.
    """
    core = EmulatedCore(
        "cortex-m4f",
        [cmsis / "Source" / "FilteringFunctions" / "arm_fir_f32.c"],
        ["arm_fir_f32"],
        build,
        [cmsis / "Include", cmsis / "PrivateInclude"],
        ["ARM_MATH_LOOPUNROLL", "__GNUC_PYTHON__"],
        ["-ffp-contract=fast"],
    )
    cycles = {taps: _cycles_a_sample(core, taps) for taps in PUBLISHED}
    found = [
        Figure(f"arm_fir_f32, {taps} taps, per sample, M4F", PUBLISHED[taps], cycles[taps], LEAST, MOST)
        for taps in PUBLISHED
    ]
    published, emulated = _slope(PUBLISHED), _slope(cycles)
    limits = LEAST_SLOPE / published, MOST_SLOPE / published
    return [*found, Figure("arm_fir_f32, each further tap, M4F", published, emulated, *limits)]


def _slope(cycles: dict[int, float]) -> float:
    few, many = SLOPE_TAPS
    return (cycles[many] - cycles[few]) / (many - few)


def _cycles_a_sample(core: EmulatedCore, taps: int) -> float:
    core.free()
    random = np.random.default_rng(0)
    coefficients, samples = random.standard_normal((2, taps)).astype(np.float32)
    state = core.place(np.zeros(2 * taps - 1, np.float32))
    instance = core.words([taps, state, core.place(coefficients)])
    result = core.place(4 * taps)
    _, cycles = core.call("arm_fir_f32", instance, core.place(samples), result, taps)
    filtered = np.frombuffer(core.machine.read_memory(result, 4 * taps), np.float32)
    expected = np.convolve(samples.astype(float), coefficients[::-1].astype(float))[:taps]
    assert np.abs(filtered - expected).max() <= 1e-5 * np.abs(expected).max(), "the filter computes something else"
    return cycles / taps
