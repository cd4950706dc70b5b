# SPDX-License-Identifier: Apache-2.0
"""Step times: the image without Winograd's algorithm computes directly, and the flash adds little to either."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from poet_harness.profiling.configurations import Configuration
from poet_profiles.operators import params_key

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.kernels import Layer
from benchmarks.firmware.steps import bench

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")


def test_direct_and_winograd_are_two_images(tmp_path: Path) -> None:
    shape = Configuration("conv2d", params_key("conv2d", Layer(16, 16, 8, 8, 3).params))
    macs = 16 * 16 * 8 * 8 * 9
    found = {}
    for winograd in (False, True):
        with bench(tmp_path / str(winograd), winograd) as one:
            found[winograd], flash = one.cycles(shape)
            assert 0 < flash < 0.2 * found[winograd]
            assert one.cycles(shape) == (found[winograd], flash)  # known by now
    assert found[True] < 2 * macs <= found[False]
