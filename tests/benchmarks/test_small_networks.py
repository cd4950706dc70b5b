# SPDX-License-Identifier: Apache-2.0
"""Images of six small networks: no larger than they were, with what they compute beside PyTorch's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.small_networks import DIGITS, NETWORKS, image_of, measured

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")

GROWTH = 1.02


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("core")


@pytest.mark.parametrize("name", NETWORKS)
def test_flash_and_stack_do_not_grow(name: str, core: Path, tmp_path: Path) -> None:
    """By more than 2 %, but on purpose: then the network's record changes with it, in the same commit."""
    network = NETWORKS[name]
    result = measured(network, image_of(network, core, tmp_path))
    flash, stack = network.recorded
    assert result.flash <= GROWTH * flash
    assert result.stack <= GROWTH * stack
    assert result.error <= DIGITS
