# SPDX-License-Identifier: Apache-2.0
"""Step times: counted once a shape, and the assumed cache adds little."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from poet_harness.profiling.configurations import Configuration
from poet_profiles.firmware.operators import params_key

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.kernels import Layer
from benchmarks.firmware.steps import bench

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")


def test_the_cache_adds_little_to_a_call(tmp_path: Path) -> None:
    shape = Configuration("conv2d", params_key("conv2d", Layer(16, 16, 8, 8, 3).params))
    with bench(tmp_path) as one:
        cycles, added = one.cycles(shape)
        assert 0 < added < 0.2 * cycles
        assert cycles < 2 * 16 * 16 * 8 * 8 * 9
        assert one.cycles(shape) == (cycles, added)  # known by now
